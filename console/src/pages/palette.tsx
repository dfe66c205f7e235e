// Finds pages, workflows and runs.
import { useRef, useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import { isRunId } from "../model/filters.ts";
import { navigate } from "../router.ts";
import { t } from "../text/en.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Icon, type IconName } from "../ui/icon.tsx";
import { places } from "./frame.tsx";

interface Found {
  to: string;
  name: string;
  kind: string;
  icon: IconName;
}

function search(text: string, workflows: string[]): Found[] {
  const wanted = text.trim().toLowerCase();
  const all: Found[] = [
    { to: "/runs/new", name: t.nav.newRun, kind: t.palette.action, icon: "plus" },
    ...places().map(({ to, name, icon }) => ({ to, name, icon, kind: t.palette.page })),
    ...workflows.map((name) => ({
      to: `/workflows/${name}`,
      name,
      kind: t.palette.workflow,
      icon: "workflow" as const,
    })),
  ];
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted)).slice(0, 12);
  return isRunId(wanted)
    ? [{ to: `/runs/${wanted}`, name: wanted, kind: t.palette.run, icon: "runs" }, ...found]
    : found;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const workflows = useResource("workflows", (signal) => call("GET /v1/workflows", { signal }));
  const found = search(
    text,
    (workflows.data.value ?? []).map(({ name }) => name),
  );
  const open = (one: Found | undefined) => {
    if (!one) return;
    onClose();
    navigate(one.to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") open(found[index]);
    else if (event.key === "ArrowDown") setIndex(Math.min(index + 1, found.length - 1));
    else if (event.key === "ArrowUp") setIndex(Math.max(index - 1, 0));
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={t.palette.label} onClose={onClose} class="palette">
      <div class="palette-field">
        <Icon name="search" />
        <input
          ref={input}
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[index] ? `palette-${index}` : undefined}
          aria-label={t.palette.placeholder}
          placeholder={t.palette.placeholder}
          autoFocus
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setIndex(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <ul id="palette-list" role="listbox" aria-label={t.palette.label}>
        {found.map((one, place) => (
          <li
            key={one.kind + one.to}
            id={`palette-${place}`}
            role="option"
            aria-selected={place === index}
            onClick={() => open(one)}
            onPointerMove={() => setIndex(place)}
          >
            <Icon name={one.icon} />
            <span class="t">{one.name}</span>
            <span class="dim">{one.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="none dim">{t.palette.none}</p>}
    </Dialog>
  );
}
