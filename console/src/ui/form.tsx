// Fields of forms.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { t } from "../text/en.ts";
import { Icon, type IconName } from "./icon.tsx";

interface FieldProps {
  label: ComponentChildren;
  hint?: ComponentChildren;
  error?: string | undefined;
  class?: string;
  children: (attributes: { id: string; "aria-describedby"?: string; "aria-invalid"?: true }) => ComponentChildren;
}

/** A label, its control, and the hint or the engine's message below it. */
export function Field({ label, hint, error, class: className, children }: FieldProps) {
  const id = useId();
  const attributes = {
    id,
    ...((error || hint) && { "aria-describedby": `${id}-d` }),
    ...(error && { "aria-invalid": true as const }),
  };
  return (
    <div class={className}>
      <label for={id}>{label}</label>
      {children(attributes)}
      {error ? (
        <p class="error" id={`${id}-d`}>
          <Icon name="warning" />
          {error}
        </p>
      ) : (
        hint && (
          <p class="hint" id={`${id}-d`}>
            {hint}
          </p>
        )
      )}
    </div>
  );
}

type TextFieldProps = Omit<FieldProps, "children"> & {
  value: string;
  onText: (text: string) => void;
  type?: "text" | "password" | "date" | "datetime-local";
  inputMode?: "decimal" | "numeric";
  placeholder?: string;
  autoFocus?: boolean;
  required?: boolean;
};

export const TextField = ({ label, hint, error, class: className, onText, type = "text", ...rest }: TextFieldProps) => (
  <Field label={label} hint={hint} error={error} {...(className && { class: className })}>
    {(attributes) => (
      <input
        type={type as "text"}
        class={`input ${error ? "bad" : ""}`}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onText(event.currentTarget.value)}
        {...rest}
        {...attributes}
      />
    )}
  </Field>
);

type AreaProps = Omit<FieldProps, "children"> & {
  value: string;
  onText: (text: string) => void;
  rows?: number;
  mono?: boolean;
  placeholder?: string;
};

export const TextArea = ({ label, hint, error, value, onText, rows = 4, mono = false, placeholder }: AreaProps) => (
  <Field label={label} hint={hint} error={error}>
    {(attributes) => (
      <textarea
        class={`input ${mono ? "mono" : ""} ${error ? "bad" : ""}`}
        rows={rows}
        placeholder={placeholder}
        spellcheck={!mono}
        value={value}
        onInput={(event) => onText(event.currentTarget.value)}
        {...attributes}
      />
    )}
  </Field>
);

export interface Option {
  value: string;
  label: string;
}

type SelectProps = Omit<FieldProps, "children"> & {
  value: string;
  options: Option[];
  onChoose: (value: string) => void;
};

export const Select = ({ label, hint, error, value, options, onChoose }: SelectProps) => (
  <Field label={label} hint={hint} error={error}>
    {(attributes) => (
      <span class="select">
        <select
          class={`input ${error ? "bad" : ""}`}
          onChange={(event) => onChoose(event.currentTarget.value)}
          {...attributes}
        >
          {options.map(({ value: one, label: name }) => (
            <option key={one} value={one} selected={one === value}>
              {name}
            </option>
          ))}
        </select>
        <Icon name="down" />
      </span>
    )}
  </Field>
);

/** A choice among a few that are all visible. */
export function Segments<Value extends string>({
  label,
  value,
  options,
  onChoose,
}: {
  label: string;
  value: Value;
  options: [Value, string][];
  onChoose: (value: Value) => void;
}) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {options.map(([one, name]) => (
        <button
          key={one}
          type="button"
          class={one === value ? "on" : ""}
          aria-pressed={one === value}
          onClick={() => onChoose(one)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

/** A right or an option that is on or off. */
export const Toggle = ({
  isOn,
  icon,
  onChange,
  children,
}: {
  isOn: boolean;
  icon?: IconName;
  onChange: (isOn: boolean) => void;
  children: ComponentChildren;
}) => (
  <button type="button" class={`filter ${isOn ? "on" : ""}`} aria-pressed={isOn} onClick={() => onChange(!isOn)}>
    {isOn ? <Icon name="check" /> : icon && <Icon name={icon} />}
    {children}
  </button>
);

/** A box to tick, with the sentence that it agrees to. */
export const Check = ({
  isOn,
  onChange,
  children,
}: {
  isOn: boolean;
  onChange: (isOn: boolean) => void;
  children: ComponentChildren;
}) => (
  <label class="agree">
    <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} />
    <span>{children}</span>
  </label>
);

/** The JSON of a text, or undefined if it has none; an empty text is no value. */
export function parseJson(text: string): { value?: unknown; error?: string } {
  if (!text.trim()) return {};
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { error: t.common.notJson };
  }
}
