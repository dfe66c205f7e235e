// Where a request comes from: a prompt, a saved workflow, an earlier run.
import { useState } from "preact/hooks";
import { type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { money } from "../../model/money.ts";
import { duration } from "../../model/time.ts";
import { visible } from "../../model/ansi.ts";
import { navigate, query } from "../../router.ts";
import { t } from "../../text/en.ts";
import { newText as texts } from "../../text/new.ts";
import { Button, ButtonLink, Status } from "../../ui/basics.tsx";
import { Select, TextArea, TextField } from "../../ui/form.tsx";
import { readRun } from "../run/state.ts";
import { type Draft } from "./request.ts";

export type From = "prompt" | "workflow" | "earlier";

export function Original({ id }: { id: string }) {
  const run = useResource(id, (signal) => readRun(id, signal)).data.value;
  if (!run) return null;
  const { started_at: started, finished_at: finished, cost_micros: cost = 0, usage } = run;
  return (
    <section class="card" aria-label={texts.original}>
      <header>
        <h2>{texts.original}</h2>
        <Status status={run.status} />
        <span class="gap" />
        <ButtonLink to={`/runs/${id}`} kind="ghost">
          {texts.open}
        </ButtonLink>
      </header>
      <div class="form">
        <p class="sub">{visible(run.title ?? id)}</p>
        <dl class="facts">
          {started && finished && (
            <div>
              <dt>{t.runs.columns.duration}</dt>
              <dd>{duration(Date.parse(finished) - Date.parse(started))}</dd>
            </div>
          )}
          <div>
            <dt>{t.runs.columns.cost}</dt>
            <dd>{money(cost)}</dd>
          </div>
          {usage && (
            <div>
              <dt>{t.runs.columns.model}</dt>
              <dd>
                {usage.model_calls} <small>× {run.model}</small>
              </dd>
            </div>
          )}
        </dl>
        {run.error && <p class="bad">{visible(run.error)}</p>}
      </div>
    </section>
  );
}

/** Where the request comes from: a prompt, a saved workflow, an earlier run. */
export function Source({
  from,
  draft,
  workflows,
  messages,
}: {
  from: From;
  draft: Draft;
  workflows: Api.WorkflowSummary[];
  messages: Map<string, string>;
}) {
  const { request, set } = draft;
  const [earlier, setEarlier] = useState(query.value.get("from") ?? "");
  const prompt = (
    <TextArea
      label={
        from === "workflow" ? (
          <>
            {texts.prompt}
            <span class="dim optional">{t.common.optional}</span>
          </>
        ) : (
          texts.prompt
        )
      }
      hint={from === "workflow" ? texts.promptOverrideHint : texts.promptHint}
      error={messages.get("prompt")}
      rows={from === "workflow" ? 2 : 7}
      placeholder={from === "workflow" ? "" : texts.promptPlaceholder}
      value={request.prompt ?? ""}
      onText={(text) => set({ prompt: text || undefined })}
    />
  );
  if (from === "workflow") {
    const chosen = workflows.find(({ name }) => name === request.workflow);
    return (
      <>
        <Select
          label={texts.workflow}
          hint={workflows.length ? chosen?.description : texts.workflowNone}
          error={messages.get("workflow")}
          value={request.workflow ?? ""}
          options={[
            { value: "", label: texts.workflowChoose },
            ...workflows.map(({ name }) => ({ value: name, label: name })),
          ]}
          onChoose={(name) => set({ workflow: name || undefined })}
        />
        {prompt}
      </>
    );
  }
  if (from === "prompt") return prompt;
  return (
    <form
      class="load"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(`/runs/new?from=${encodeURIComponent(earlier.trim())}`, { replace: true });
      }}
    >
      <TextField label={texts.earlier} hint={texts.earlierHint} value={earlier} onText={setEarlier} />
      <Button type="submit">{texts.load}</Button>
    </form>
  );
}
