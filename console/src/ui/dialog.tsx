// Dialogs and menus.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { t } from "../text/en.ts";
import { Button, IconButton } from "./basics.tsx";
import { Icon, type IconName } from "./icon.tsx";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
  /** Keeps the dialog open on Escape and on clicks outside. */
  isModal?: boolean;
}

export function Dialog({ title, onClose, children, class: className = "", isModal = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => ref.current?.showModal(), []);
  return (
    <dialog
      ref={ref}
      class={`dialog ${className}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!isModal) onClose();
      }}
      onClick={(event) => event.target === ref.current && !isModal && onClose()}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <span class="gap" />
        {!isModal && <IconButton label={t.common.close} icon="cross" onClick={onClose} />}
      </header>
      {children}
    </dialog>
  );
}

interface Question {
  title: string;
  explain: string;
  confirm: string;
  cancel?: string;
  /** Text that has to be typed before. */
  typed?: string;
  isDangerous?: boolean;
  act: () => void | Promise<void>;
}

const question = signal<Question | undefined>(undefined);

/** Asks once before something that cannot be undone. */
export const ask = (asked: Question) => void (question.value = asked);

export function Questions() {
  const asked = question.value;
  return asked && <QuestionDialog key={asked.title} asked={asked} />;
}

function QuestionDialog({ asked }: { asked: Question }) {
  const [typed, setTyped] = useState("");
  const close = () => (question.value = undefined);
  const isReady = asked.typed === undefined || typed === asked.typed;
  return (
    <Dialog title={asked.title} onClose={close}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          close();
          void asked.act();
        }}
      >
        <p class="sub">{asked.explain}</p>
        {asked.typed !== undefined && (
          <input
            class="input mono"
            aria-label={asked.typed}
            value={typed}
            autocomplete="off"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        )}
        <footer>
          <Button onClick={close}>{asked.cancel ?? t.common.cancel}</Button>
          <Button type="submit" kind={asked.isDangerous === false ? "primary" : "danger"} disabled={!isReady}>
            {asked.confirm}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

export interface MenuItem {
  label: string;
  icon?: IconName;
  isChecked?: boolean;
  isDangerous?: boolean;
  act: () => void;
}

interface MenuProps {
  label: string;
  items: (MenuItem | string)[];
  children: ComponentChildren;
  class?: string;
  /** Keeps the menu open after a choice, for several choices. */
  isSticky?: boolean;
  above?: boolean;
}

/** A button with a menu. Texts among the items are headings. */
export function Menu({
  label,
  items,
  children,
  class: className = "btn ghost icon",
  isSticky = false,
  above = false,
}: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  const options = () => [...ref.current!.querySelectorAll<HTMLButtonElement>('[role^="menuitem"]')];
  useEffect(() => {
    if (!isOpen) return;
    options()[0]?.focus();
    const onPointer = (event: Event) => !ref.current?.contains(event.target as Node) && setOpen(false);
    addEventListener("pointerdown", onPointer);
    return () => removeEventListener("pointerdown", onPointer);
  }, [isOpen]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const all = options();
    const index = all.indexOf(document.activeElement as HTMLButtonElement);
    const goals: Record<string, number> = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: -1 };
    if (event.key in goals) all.at(goals[event.key]! % all.length)?.focus();
    else if (event.key === "Escape" || event.key === "Tab") setOpen(false);
    else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") ref.current?.querySelector("button")?.focus();
  };
  return (
    <div class="menu" ref={ref} onKeyDown={onKeyDown}>
      <button
        type="button"
        class={className}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        {...(className.includes("icon") && { "aria-label": label, title: label })}
        onClick={() => setOpen(!isOpen)}
      >
        {children}
      </button>
      {isOpen && (
        <div class={`tip items ${above ? "above" : ""}`} role="menu" aria-label={label}>
          {items.map((item) =>
            typeof item === "string" ? (
              <p key={item} class="dim" role="presentation">
                {item}
              </p>
            ) : (
              <button
                key={item.label}
                type="button"
                role={item.isChecked === undefined ? "menuitem" : "menuitemcheckbox"}
                aria-checked={item.isChecked}
                class={item.isDangerous ? "danger" : ""}
                onClick={() => {
                  if (!isSticky) setOpen(false);
                  item.act();
                }}
              >
                {item.isChecked !== undefined ? (
                  <span class="mark-place">{item.isChecked && <Icon name="check" />}</span>
                ) : (
                  item.icon && <Icon name={item.icon} />
                )}
                {item.label}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}
