// A form made from a JSON Schema, with the JSON as the other view of the same value.
import { useEffect, useState } from "preact/hooks";
import { fieldsOf, textOf, valueOf, type JsonSchema, type SchemaField } from "../model/schema.ts";
import { t } from "../text/en.ts";
import { parseJson, Segments, Select, TextArea, TextField } from "./form.tsx";

interface SchemaFormProps {
  label: string;
  hint: string;
  schema: JsonSchema | undefined;
  value: unknown;
  /** Messages by path, such as `input.week`. */
  messages: Map<string, string>;
  path: string;
  onChange: (value: unknown) => void;
}

function OneField({
  field,
  value,
  error,
  onChange,
}: {
  field: SchemaField;
  value: unknown;
  error: string | undefined;
  onChange: (value: unknown) => void;
}) {
  const [text, setText] = useState(textOf(field.type, value));
  const outside = textOf(field.type, value);
  useEffect(() => {
    if (valueOf(field.type, text) !== value && JSON.stringify(valueOf(field.type, text)) !== JSON.stringify(value))
      setText(outside);
  }, [outside]);
  const type = (next: string) => {
    setText(next);
    onChange(valueOf(field.type, next));
  };
  const label = (
    <>
      {field.label}
      {!field.isRequired && <span class="dim optional">{t.common.optional}</span>}
    </>
  );
  const common = { label, hint: field.hint, error };
  switch (field.type) {
    case "boolean":
      return (
        <label class="check">
          <input
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(event.currentTarget.checked || (field.isRequired ? false : undefined))}
          />
          {field.label}
        </label>
      );
    case "choice":
      return (
        <Select
          {...common}
          value={text}
          options={[
            ...(field.isRequired && text ? [] : [{ value: "", label: "" }]),
            ...field.choices.map((choice) => ({ value: choice, label: choice })),
          ]}
          onChoose={type}
        />
      );
    case "long":
    case "json":
      return (
        <div class="whole">
          <TextArea {...common} value={text} mono={field.type === "json"} rows={3} onText={type} />
        </div>
      );
    case "date":
      return <TextField {...common} type="date" value={text} onText={type} />;
    default:
      return (
        <TextField
          {...common}
          value={text}
          {...(field.type === "text" ? {} : { inputMode: "decimal" as const })}
          onText={type}
        />
      );
  }
}

export function SchemaForm({ label, hint, schema, value, messages, path, onChange }: SchemaFormProps) {
  const fields = fieldsOf(schema);
  const [view, setView] = useState<"form" | "json">("form");
  const [text, setText] = useState(textOf("json", value));
  const outside = textOf("json", value);
  const parsed = parseJson(text);
  useEffect(() => {
    if (JSON.stringify(parseJson(text).value) !== JSON.stringify(value)) setText(outside);
  }, [outside]);
  const object = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  const setField = (name: string) => (field: unknown) => {
    const next = Object.fromEntries(
      Object.entries({ ...object, [name]: field }).filter(([, one]) => one !== undefined),
    );
    onChange(Object.keys(next).length ? next : undefined);
  };
  const own = parsed.error ?? messages.get(path);
  const isForm = fields !== undefined && view === "form";
  return (
    <div>
      {fields && (
        <span class="lab">
          {label}
          <span class="gap" />
          <Segments
            label={label}
            value={view}
            options={[
              ["form", "Form"],
              ["json", "JSON"],
            ]}
            onChoose={setView}
          />
        </span>
      )}
      {isForm ? (
        <div class="two">
          {fields.map((field) => (
            <OneField
              key={field.name}
              field={field}
              value={object[field.name]}
              error={messages.get(`${path}.${field.name}`)}
              onChange={setField(field.name)}
            />
          ))}
        </div>
      ) : (
        <TextArea
          label={
            fields ? (
              <span class="vh">{label}</span>
            ) : (
              <>
                {label}
                <span class="dim optional">{t.common.optional}</span>
              </>
            )
          }
          hint={hint}
          error={own}
          mono
          value={text}
          onText={(next) => {
            setText(next);
            const { value: read, error } = parseJson(next);
            if (!error) onChange(read);
          }}
        />
      )}
    </div>
  );
}
