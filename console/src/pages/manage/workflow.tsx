// The editor of a workflow: form and definition in step, and a test of its input schema.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, type Api } from "../../api/client.ts";
import { href, navigate } from "../../router.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Button, ButtonLink, Skeleton } from "../../ui/basics.tsx";
import { ask } from "../../ui/dialog.tsx";
import { TextArea, TextField } from "../../ui/form.tsx";
import { Refused, useMessages } from "../../ui/refused.tsx";
import { SchemaForm } from "../../ui/schema-form.tsx";
import { toast } from "../../ui/toast.tsx";
import { Bar, workflowsPlace } from "../frame.tsx";
import { ModelAndLimits, Options, Rights, SchemaText } from "../new/fields.tsx";
import { FileFields } from "../new/files.tsx";
import { useDraft } from "../new/request.ts";
import { attempt } from "./common.tsx";

const texts = manageText.workflows;

export function WorkflowPage({ name: saved }: { name?: string }) {
  const draft = useDraft();
  const { request, set } = draft;
  const [name, setName] = useState(saved ?? "");
  const [meta, setMeta] = useState<Pick<Api.Workflow, "revision" | "updated_at">>();
  const [error, setError] = useState<ApiError>();
  const [isUploading, setUploading] = useState(false);
  const [input, setInput] = useState<unknown>();
  const messages = useMessages(error);
  useEffect(() => {
    if (!saved) return;
    call("GET /v1/workflows/{name}", { path: { name: saved } })
      .then(({ name: _name, revision, created_at: _created, updated_at, ...definition }) => {
        setMeta({ revision, updated_at });
        setInput(definition.input);
        draft.replace(definition);
      })
      .catch((failure: ApiError) => setError(failure));
  }, [saved]);

  const save = () =>
    call("PUT /v1/workflows/{name}", { path: { name }, body: request as Api.WorkflowDefinition })
      .then(({ revision, updated_at }) => {
        setError(undefined);
        setMeta({ revision, updated_at });
        toast(texts.saved);
        if (!saved) navigate(`/workflows/${name}`, { replace: true });
      })
      .catch((failure: ApiError) => setError(failure));
  const remove = () =>
    ask({
      title: texts.deleteTitle(name),
      explain: texts.deleteExplain,
      confirm: t.common.delete,
      act: () => attempt(call("DELETE /v1/workflows/{name}", { path: { name } }), () => navigate("/workflows")),
    });
  const isLoading = saved !== undefined && !meta && !error;
  return (
    <main class="main-inner">
      <Bar title={saved ?? texts.new} parent={workflowsPlace}>
        {saved && (
          <Button icon="trash" kind="ghost" class="wide" onClick={remove}>
            {t.common.delete}
          </Button>
        )}
        {saved && (
          <ButtonLink icon="clock" class="wide" to={`/schedules?new=${saved}`}>
            {texts.schedule}
          </ButtonLink>
        )}
        {saved && (
          <ButtonLink icon="play" to={`/runs/new?workflow=${saved}`}>
            {texts.run}
          </ButtonLink>
        )}
        <Button
          kind="primary"
          disabled={!name || !request.prompt || !draft.isText || isUploading}
          onClick={() => void save()}
        >
          {t.common.save}
        </Button>
      </Bar>
      <div class="page halves">
        <h1 class="vh">{saved ?? texts.new}</h1>
        <section class="card">
          <header>
            <h2>{saved ?? texts.new}</h2>
            {meta && <span class="dim">{texts.revision(meta.revision)}</span>}
            <span class="gap" />
            {saved && (
              <a class="as-link" href={href(`/runs?workflow=${saved}`)}>
                {t.nav.runs}
              </a>
            )}
          </header>
          {isLoading ? (
            <Skeleton rows={8} />
          ) : (
            <div class="form">
              <Refused error={error} messages={messages} />
              {!saved && (
                <TextField
                  label={texts.name}
                  hint={texts.nameHint}
                  error={messages.get("name")}
                  value={name}
                  onText={setName}
                />
              )}
              <TextField
                label={texts.description}
                error={messages.get("description")}
                value={request.description ?? ""}
                onText={(text) => set({ description: text || undefined })}
              />
              <TextArea
                label={texts.prompt}
                error={messages.get("prompt")}
                rows={8}
                value={request.prompt ?? ""}
                onText={(text) => set({ prompt: text || undefined })}
              />
              <SchemaText
                label={texts.inputSchema}
                hint=""
                value={request.input_schema}
                error={messages.get("input_schema")}
                onChange={(schema) => set({ input_schema: schema })}
              />
              <FileFields
                files={request.files ?? []}
                error={messages.get("files")}
                onBusy={setUploading}
                onChange={(change) => set(({ files = [] }) => ({ files: change(files) }))}
              />
              <ModelAndLimits request={request} messages={messages} set={set} />
              <Rights request={request} set={set} canForget={false} />
              <Options request={request} messages={messages} set={set} canCallBack={false} />
            </div>
          )}
        </section>
        <div class="aside" hidden={isLoading}>
          {request.input_schema && (
            <section class="card">
              <header>
                <h2>{texts.tester}</h2>
              </header>
              <div class="form">
                <SchemaForm
                  label={texts.columns.input}
                  hint={texts.testerHint}
                  schema={request.input_schema}
                  value={input}
                  messages={new Map()}
                  path="input"
                  onChange={setInput}
                />
              </div>
            </section>
          )}
          <section class="card">
            <header>
              <h2>{texts.definition}</h2>
            </header>
            <div class="form">
              <TextArea
                label={<span class="vh">{texts.definition}</span>}
                hint={texts.definitionHint}
                error={draft.isText ? undefined : t.common.notJson}
                mono
                rows={Math.min(26, Math.max(10, draft.text.split("\n").length + 1))}
                value={draft.text}
                onText={draft.setText}
              />
            </div>
          </section>
        </div>
      </div>
    </main>
  );
}
