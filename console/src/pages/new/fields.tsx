// Fields of a request that workflows have too: model, budget, limits, rights, options.
import { useEffect, useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { loadModels } from "../../api/models.ts";
import { useResource } from "../../api/resource.ts";
import { parseMoney, plainMoney, pricePerMillion } from "../../model/money.ts";
import { me } from "../../session.ts";
import { newText as texts } from "../../text/new.ts";
import { parseJson, Select, TextArea, TextField, Toggle } from "../../ui/form.tsx";
import type { SetFields } from "./request.ts";

interface FieldsProps {
  request: Api.RunRequest;
  messages: Map<string, string>;
  set: SetFields;
}

const EFFORTS: Api.Effort[] = ["minimal", "low", "medium", "high", "xhigh", "max"];

/** A field with its own text, for values that are not texts. It follows the value when that changes elsewhere. */
function useText<Value>(
  value: Value | undefined,
  show: (value: Value) => string,
  read: (text: string) => Value | undefined,
): [string, (text: string) => Value | undefined] {
  const outside = value === undefined ? "" : show(value);
  const [text, setText] = useState(outside);
  useEffect(() => {
    if (read(text) !== value) setText(outside);
  }, [outside]);
  return [
    text,
    (next) => {
      setText(next);
      return read(next);
    },
  ];
}

function priceHint(model: Api.ModelInfo | undefined): string {
  if (!model) return "";
  const { input_micros_per_mtok: input, output_micros_per_mtok: output } = model.prices;
  if (model.capabilities.includes("offline")) return texts.offline;
  return input || output ? texts.price(pricePerMillion(input), pricePerMillion(output)) : texts.free;
}

export function ModelAndLimits({ request, messages, set }: FieldsProps) {
  const catalogue = useResource("models", loadModels).data.value;
  const models = catalogue?.models ?? [];
  const model = models.find(({ id }) => id === (request.model ?? catalogue?.default_model));
  const [budget, typeBudget] = useText(request.max_cost_micros, plainMoney, parseMoney);
  const [timeout, typeTimeout] = useText(request.timeout_seconds, String, (text) =>
    /^\d{1,4}$/.test(text) ? Number(text) : undefined,
  );
  const isBudgetWrong = budget !== "" && parseMoney(budget) === undefined;
  const standard = me.value?.default_max_cost_micros;
  return (
    <div class="two">
      <Select
        label={texts.model}
        hint={priceHint(model)}
        error={messages.get("model")}
        value={request.model ?? ""}
        options={[
          { value: "", label: texts.modelDefault(catalogue?.default_model ?? "") },
          ...models.map(({ id }) => ({ value: id, label: id })),
        ]}
        onChoose={(id) => set({ model: id || undefined })}
      />
      <TextField
        label={texts.budget}
        hint={`${texts.budgetHint}${standard === undefined ? "" : ` ${texts.budgetDefault(plainMoney(standard))}.`}`}
        error={isBudgetWrong ? texts.notMoney : messages.get("max_cost_micros")}
        inputMode="decimal"
        value={budget}
        placeholder={standard === undefined ? "" : plainMoney(standard)}
        onText={(text) => set({ max_cost_micros: typeBudget(text) })}
      />
      <TextField
        label={texts.timeout}
        hint={texts.timeoutHint}
        error={messages.get("timeout_seconds")}
        inputMode="numeric"
        value={timeout}
        placeholder="300"
        onText={(text) => set({ timeout_seconds: typeTimeout(text) })}
      />
      {model?.capabilities.includes("thinking") && (
        <Select
          label={texts.effort}
          value={request.effort ?? ""}
          options={[
            { value: "", label: texts.effortDefault },
            ...EFFORTS.map((effort) => ({ value: effort, label: effort })),
          ]}
          onChoose={(effort) => set({ effort: (effort || undefined) as Api.Effort | undefined })}
        />
      )}
    </div>
  );
}

export function Rights({ request, set, canForget }: Pick<FieldsProps, "request" | "set"> & { canForget: boolean }) {
  const saved = useResource("connections", (signal) => call("GET /v1/connections", { signal })).data.value ?? [];
  const connections = request.connections ?? {};
  const toggle = (name: string, isOn: boolean) => {
    const { [name]: _removed, ...rest } = connections;
    const next = isOn ? { ...rest, [name]: { ref: name } } : rest;
    set({ connections: Object.keys(next).length ? next : undefined });
  };
  const names = [...new Set([...saved.map(({ name }) => name), ...Object.keys(connections)])];
  return (
    <div role="group" aria-label={texts.rights}>
      <span class="lab">{texts.rights}</span>
      <div class="rights">
        <Toggle
          isOn={request.shell !== false}
          icon="tool"
          onChange={(isOn) => set({ shell: isOn ? undefined : false })}
        >
          {texts.shell}
        </Toggle>
        <Toggle isOn={Boolean(request.web)} onChange={(isOn) => set({ web: isOn || undefined })}>
          {texts.web}
        </Toggle>
        {names.map((name) => {
          const methods = connections[name]?.allowed_methods ?? saved.find((one) => one.name === name)?.allowed_methods;
          return (
            <Toggle key={name} isOn={name in connections} icon="plug" onChange={(isOn) => toggle(name, isOn)}>
              {name} {methods && <b>{methods.join(" ")}</b>}
            </Toggle>
          );
        })}
        {canForget && (
          <Toggle
            isOn={request.zero_data_retention === true}
            onChange={(isOn) => set({ zero_data_retention: isOn || undefined })}
          >
            {texts.noRetention}
          </Toggle>
        )}
      </div>
    </div>
  );
}

const tagsOf = (text: string) =>
  text
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);

/** A JSON Schema as text. A text that is no JSON keeps the last schema. */
export function SchemaText({
  label,
  hint,
  value,
  error,
  onChange,
}: {
  label: string;
  hint: string;
  value: Api.RunRequest["output_schema"];
  error: string | undefined;
  onChange: (schema: Api.RunRequest["output_schema"] | undefined) => void;
}) {
  const outside = value === undefined ? "" : JSON.stringify(value, null, 2);
  const [text, setText] = useState(outside);
  const parsed = parseJson(text);
  useEffect(() => {
    if (JSON.stringify(parsed.value) !== JSON.stringify(value)) setText(outside);
  }, [outside]);
  return (
    <TextArea
      label={label}
      hint={hint}
      error={parsed.error ?? error}
      mono
      rows={3}
      value={text}
      onText={(next) => {
        setText(next);
        const read = parseJson(next);
        if (!read.error) onChange(read.value as Api.RunRequest["output_schema"]);
      }}
    />
  );
}

export function Options({ request, messages, set, canCallBack }: FieldsProps & { canCallBack: boolean }) {
  const [tags, setTags] = useState((request.tags ?? []).join(", "));
  const outside = (request.tags ?? []).join(", ");
  useEffect(() => {
    if (tagsOf(tags).join() !== (request.tags ?? []).join()) setTags(outside);
  }, [outside]);
  const { url = "", secret = "" } = request.callback ?? {};
  const setCallback = (change: Partial<Api.Callback>) => {
    const next = { url, secret, ...change };
    set({ callback: next.url || next.secret ? next : undefined });
  };
  return (
    <details class="options" open={Boolean(request.tags || request.output_schema || request.callback)}>
      <summary>{texts.options}</summary>
      <div class="form">
        <TextField
          label={texts.tags}
          hint={texts.tagsHint}
          error={messages.get("tags")}
          value={tags}
          onText={(text) => {
            setTags(text);
            set({ tags: tagsOf(text).length ? tagsOf(text) : undefined });
          }}
        />
        <SchemaText
          label={texts.outputSchema}
          hint={texts.outputSchemaHint}
          value={request.output_schema}
          error={messages.get("output_schema")}
          onChange={(schema) => set({ output_schema: schema })}
        />
        {canCallBack && (
          <div class="two">
            <TextField
              label={`${texts.callback}: ${texts.callbackUrl}`}
              value={url}
              error={messages.get("callback.url") ?? messages.get("callback")}
              onText={(text) => setCallback({ url: text })}
            />
            <TextField
              label={texts.callbackSecret}
              type="password"
              value={secret}
              error={messages.get("callback.secret")}
              onText={(text) => setCallback({ secret: text })}
            />
          </div>
        )}
      </div>
    </details>
  );
}
