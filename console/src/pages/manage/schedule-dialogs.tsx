// Dialogs of a schedule: its definition, and its occurrences.
import { useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { cronWords } from "../../model/cron.ts";
import { dateTime } from "../../model/time.ts";
import { href } from "../../router.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Badge, Loaded, Time } from "../../ui/basics.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Select, TextField } from "../../ui/form.tsx";
import { SchemaForm } from "../../ui/schema-form.tsx";
import { FormDialog } from "./common.tsx";

const texts = manageText.schedules;

export const nameOf = ({ name, workflow }: Api.Schedule) => name ?? workflow;

export function Editor({
  schedule,
  workflow: chosen,
  onClose,
  onSaved,
}: {
  schedule?: Api.Schedule;
  workflow?: string;
  onClose: () => void;
  onSaved: () => void;
}) {
  const workflows =
    useResource("workflows", (signal) => call("GET /v1/workflows", { query: { detail: true }, signal })).data.value ??
    [];
  const [draft, setDraft] = useState({
    workflow: schedule?.workflow ?? chosen ?? "",
    name: schedule?.name ?? "",
    cron: schedule?.cron ?? "0 7 * * MON-FRI",
    timezone: schedule?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    overlap: schedule?.overlap ?? ("allow" as Api.Overlap),
    input: schedule?.input,
  });
  const set = (change: Partial<typeof draft>) => setDraft({ ...draft, ...change });
  const schema = workflows.find(({ name }) => name === draft.workflow)?.input_schema;
  const submit = async () => {
    const { name, input, ...rest } = draft;
    if (schedule)
      await call("PATCH /v1/schedules/{id}", {
        path: { id: schedule.id },
        body: { ...rest, name: name || null, input: input ?? null },
      });
    else
      await call("POST /v1/schedules", {
        body: { ...rest, ...(name && { name }), ...(input !== undefined && { input }) },
      });
    onSaved();
  };
  const options = [{ value: "", label: "" }, ...workflows.map(({ name }) => ({ value: name, label: name }))];
  return (
    <FormDialog
      title={schedule ? nameOf(schedule) : texts.new}
      submit={schedule ? t.common.save : t.common.create}
      isReady={Boolean(draft.workflow && draft.cron)}
      onClose={onClose}
      onSubmit={submit}
      class="wide-form"
    >
      {(messages) => (
        <>
          <div class="two">
            <Select
              label={texts.workflow}
              error={messages.get("workflow")}
              value={draft.workflow}
              options={options}
              onChoose={(workflow) => set({ workflow })}
            />
            <TextField
              label={
                <>
                  {texts.name}
                  <span class="dim optional">{t.common.optional}</span>
                </>
              }
              error={messages.get("name")}
              value={draft.name}
              onText={(name) => set({ name })}
            />
          </div>
          <div class="two">
            <TextField
              label={texts.cron}
              hint={cronWords(draft.cron) ?? texts.cronHint}
              error={messages.get("cron")}
              value={draft.cron}
              onText={(cron) => set({ cron })}
            />
            <TextField
              label={texts.timezone}
              error={messages.get("timezone")}
              value={draft.timezone}
              onText={(timezone) => set({ timezone })}
            />
          </div>
          <Select
            label={texts.columns.overlap}
            value={draft.overlap}
            options={Object.entries(texts.overlap).map(([value, label]) => ({ value, label }))}
            onChoose={(overlap) => set({ overlap: overlap as Api.Overlap })}
          />
          <SchemaForm
            label={texts.input}
            hint=""
            schema={schema}
            value={draft.input}
            messages={messages}
            path="input"
            onChange={(input) => set({ input })}
          />
        </>
      )}
    </FormDialog>
  );
}

export function Details({ schedule, onClose }: { schedule: Api.Schedule; onClose: () => void }) {
  const path = { id: schedule.id };
  const next = useResource(schedule.id, (signal) =>
    call("GET /v1/schedules/{id}/next", { path, query: { count: 5 }, signal }),
  );
  const fires = useResource(schedule.id, (signal) =>
    call("GET /v1/schedules/{id}/fires", { path, query: { limit: 20 }, signal }),
  );
  return (
    <Dialog title={nameOf(schedule)} onClose={onClose} class="wide-form">
      <div class="form">
        {schedule.last_error && (
          <p class="bad">
            {texts.lastError}: {schedule.last_error}
          </p>
        )}
        <section>
          <h3>{texts.nextTimes}</h3>
          <p class="sub">{next.data.value?.map(({ run_at }) => dateTime(run_at)).join(" · ")}</p>
        </section>
        <section>
          <h3>{texts.history}</h3>
          <Loaded data={fires.data.value} error={fires.error.value}>
            {({ items }) =>
              items.length === 0 ? (
                <p class="dim">{texts.noHistory}</p>
              ) : (
                <ul class="fires">
                  {items.map(({ instant, outcome, reason, run_id }) => (
                    <li key={instant}>
                      <Time at={instant}>{dateTime(instant)}</Time>
                      <Badge
                        look={outcome === "started" ? "ok" : outcome === "waiting" ? "live" : "warn"}
                        icon={outcome === "started" ? "check" : "clock"}
                      >
                        {texts.outcomes[outcome] ?? outcome}
                      </Badge>
                      {run_id ? (
                        <a class="as-link mono" href={href(`/runs/${run_id}`)} onClick={onClose}>
                          …{run_id.slice(-8)}
                        </a>
                      ) : (
                        <span class="dim">{reason}</span>
                      )}
                    </li>
                  ))}
                </ul>
              )
            }
          </Loaded>
        </section>
      </div>
    </Dialog>
  );
}
