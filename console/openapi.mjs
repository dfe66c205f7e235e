// Makes TypeScript declarations from an OpenAPI document: an interface or a type for each schema, an interface for the
// query of each operation, and `Operations`, which maps "GET /v1/runs/{id}" to the types of its path, query, body and reply.

const METHODS = ["get", "post", "put", "patch", "delete"];

const nameOf = (reference) => reference.split("/").at(-1);
const union = (types) => [...new Set(types)].join(" | ") || "never";
const camel = (text) => text.replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase());

/** The declaration of a schema as an expression. */
function expression(schema) {
  if (schema === undefined || schema === true) return "unknown";
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return union(choices.map(expression));
  if (schema.allOf) return schema.allOf.map(expression).join(" & ");
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => expression({ ...schema, type })));
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "array":
      return `Array<${expression(schema.items)}>`;
    case "object":
      return schema.properties ? `{ ${fields(schema).join(" ")} }` : `Record<string, ${expression(valueOf(schema))}>`;
    default:
      return "unknown";
  }
}

const valueOf = ({ additionalProperties }) =>
  typeof additionalProperties === "object" ? additionalProperties : undefined;

const fields = ({ properties, required = [] }) =>
  Object.entries(properties).map(
    ([name, schema]) => `${JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${expression(schema)};`,
  );

const declaration = (name, schema) =>
  schema.type === "object" && schema.properties
    ? `export interface ${name} {\n  ${fields(schema).join("\n  ")}\n}`
    : `export type ${name} = ${expression(schema)};`;

const jsonOf = (content) => content?.["application/json"]?.schema;

/** The types of one operation, and the declaration of its query. */
function operation(document, path, method) {
  const { operationId, parameters = [], requestBody, responses } = document.paths[path][method];
  const of = (place) => parameters.filter((parameter) => parameter.in === place);
  const object = (list) =>
    `{ ${list.map(({ name, required, schema }) => `${JSON.stringify(name)}${required ? "" : "?"}: ${expression(schema)};`).join(" ")} }`;
  const query = `${camel(operationId)}Query`;
  const replies = Object.entries(responses)
    .filter(([status]) => status.startsWith("2"))
    .map(([, response]) => (jsonOf(response.content) ? expression(jsonOf(response.content)) : "void"));
  const body = requestBody ? expression(jsonOf(requestBody.content)) : "undefined";
  return {
    query: `export interface ${query} ${object(of("query"))}`,
    entry: `  "${method.toUpperCase()} ${path}": { path: ${object(of("path"))}; query: ${query}; body: ${body}; reply: ${union(replies)} };`,
  };
}

export function declarations(document) {
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => declaration(name, schema));
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => operation(document, path, method)),
  );
  return [
    "// Made by build.mjs from the OpenAPI document of the engine.",
    ...schemas,
    ...operations.map(({ query }) => query),
    `export interface Operations {\n${operations.map(({ entry }) => entry).join("\n")}\n}`,
    "",
  ].join("\n\n");
}
