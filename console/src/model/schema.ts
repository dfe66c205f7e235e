// Forms from JSON Schemas: which fields an object has, how their texts become values, where a message belongs.

export type JsonSchema = Record<string, unknown>;
export type FieldType = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "date" | "json";

export interface SchemaField {
  name: string;
  label: string;
  hint: string;
  type: FieldType;
  isRequired: boolean;
  choices: string[];
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function typeOf(schema: JsonSchema): FieldType {
  if (Array.isArray(schema.enum) && schema.enum.every((value) => typeof value === "string")) return "choice";
  switch (schema.type) {
    case "number":
    case "integer":
    case "boolean":
      return schema.type;
    case "string":
      if (schema.format === "date") return "date";
      return Number(schema.maxLength ?? 0) > 200 || schema.format === "textarea" ? "long" : "text";
    default:
      return "json";
  }
}

const labelOf = (name: string) => name.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());

/** Limits in words: "0 to 1", "at most 20 characters". */
function limitsOf(schema: JsonSchema): string {
  const { minimum, maximum, maxLength } = schema;
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  if (minimum !== undefined) return `at least ${minimum}`;
  if (maximum !== undefined) return `at most ${maximum}`;
  return maxLength === undefined ? "" : `at most ${maxLength} characters`;
}

/** Fields of an object's schema, or undefined where a form cannot show it. */
export function fieldsOf(schema: JsonSchema | undefined): SchemaField[] | undefined {
  if (!schema || !isObject(schema.properties) || schema.type !== "object") return undefined;
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(schema.properties).map(([name, property]) => {
    const field = isObject(property) ? property : {};
    return {
      name,
      label: typeof field.title === "string" ? field.title : labelOf(name),
      hint: [field.description, limitsOf(field)].filter(Boolean).join(" · "),
      type: typeOf(field),
      isRequired: required.includes(name),
      choices: Array.isArray(field.enum) ? field.enum.map(String) : [],
    };
  });
}

/** The value of a field's text. An empty text is no value; a text that does not fit stays a text, and the engine refuses it. */
export function valueOf(type: FieldType, text: string): unknown {
  if (text === "") return undefined;
  if (type === "number" || type === "integer") return Number.isFinite(Number(text)) ? Number(text) : text;
  if (type !== "json") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The text of a value in a field. */
export function textOf(type: FieldType, value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" && type !== "json" ? value : JSON.stringify(value, null, 2);
}

/**
 * Messages of the engine by the field they are about: "input.week: required; timeout_seconds: must be …". A reason may have
 * a semicolon itself.
 */
export function messagesByField(message: string): Map<string, string> {
  const byField = new Map<string, string>();
  let last: string | undefined;
  for (const part of message.split("; ")) {
    const [, path = last, reason = part] = /^([a-z_]+(?:[.[][^:\s]*)?): (.+)$/s.exec(part) ?? [];
    last = path;
    const before = path && byField.get(path);
    if (path) byField.set(path, before ? `${before}; ${reason}` : reason);
  }
  return byField;
}
