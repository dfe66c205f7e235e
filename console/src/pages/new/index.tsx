// A new run: the form on one side, the same request as text on the other.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { navigate, query } from "../../router.ts";
import { t } from "../../text/en.ts";
import { newText as texts } from "../../text/new.ts";
import { Button, ErrorBox } from "../../ui/basics.tsx";
import { Menu } from "../../ui/dialog.tsx";
import { Segments, TextArea, TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { useKeys } from "../../ui/keys.ts";
import { Refused, useMessages } from "../../ui/refused.tsx";
import { SchemaForm } from "../../ui/schema-form.tsx";
import { Bar, runsPlace } from "../frame.tsx";
import { copyAsCli, copyAsCurl, SaveWorkflow } from "../run/definition.tsx";
import { ModelAndLimits, Options, Rights } from "./fields.tsx";
import { FileFields } from "./files.tsx";
import { useDraft, withCredentials, type Draft } from "./request.ts";
import { Original, Source, type From } from "./source.tsx";

/** Fills the form from the address: a run to replay, or a workflow. */
function useStart(draft: Draft, setFrom: (from: From) => void) {
  const [credentials, setCredentials] = useState<string[]>([]);
  const [error, setError] = useState<ApiError>();
  const origin = query.value.get("from");
  const workflow = query.value.get("workflow");
  useEffect(() => {
    if (workflow) {
      setFrom("workflow");
      draft.replace({ workflow });
    }
    if (!origin) return;
    call("GET /v1/runs/{id}/definition", { path: { id: origin } })
      .then(({ request, requires_credentials }) => {
        setFrom("prompt");
        setError(undefined);
        setCredentials(requires_credentials);
        draft.replace({ ...request, replay_of: origin });
      })
      .catch((failure: ApiError) => setError(failure));
  }, [origin, workflow]);
  return { origin, credentials, error };
}

export function NewRunPage() {
  const draft = useDraft();
  const { request, set } = draft;
  const [from, setFrom] = useState<From>("prompt");
  const { origin, credentials, error: startError } = useStart(draft, setFrom);
  const workflows =
    useResource("workflows", (signal) => call("GET /v1/workflows", { query: { detail: true }, signal })).data.value ??
    [];
  const [secrets, setSecrets] = useState<Record<string, string>>({});
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const [isUploading, setUploading] = useState(false);
  const [isSaving, setSaving] = useState(false);
  const messages = useMessages(error);
  const schema = request.input_schema ?? workflows.find(({ name }) => name === request.workflow)?.input_schema;
  const isReady = Boolean(request.prompt || request.workflow) && draft.isText && !isUploading && !isBusy;

  const start = async () => {
    if (!isReady) return;
    setBusy(true);
    try {
      const run = await call("POST /v1/runs", {
        body: withCredentials(request, secrets),
        headers: { "Idempotency-Key": draft.idempotencyKey },
      });
      navigate(`/runs/${run.id}`);
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
    }
    setBusy(false);
  };
  useKeys({ "mod+Enter": () => void start() });
  const choose = (next: From) => {
    setFrom(next);
    if (next === "prompt") set({ workflow: undefined });
  };
  const why = isUploading
    ? texts.waitForUploads
    : !draft.isText
      ? t.common.notJson
      : isReady
        ? undefined
        : texts.nothing;
  return (
    <main class="main-inner">
      <Bar title={texts.title} parent={runsPlace}>
        <Button icon="copy" kind="ghost" class="wide" onClick={() => copyAsCurl(request)}>
          {texts.curl}
        </Button>
        <Button icon="tool" kind="ghost" class="wide" onClick={() => copyAsCli(request)}>
          {texts.cli}
        </Button>
        <Button class="wide" disabled={!request.prompt} onClick={() => setSaving(true)}>
          {texts.saveWorkflow}
        </Button>
        <Button icon="play" kind="primary" keys="⌘↵" disabled={!isReady} title={why} onClick={() => void start()}>
          {isBusy ? texts.starting : texts.start}
        </Button>
        <span class="narrow-only">
          <Menu
            label={t.common.moreActions}
            items={[
              { label: texts.curl, icon: "copy", act: () => copyAsCurl(request) },
              { label: texts.cli, icon: "tool", act: () => copyAsCli(request) },
              { label: texts.saveWorkflow, icon: "workflow", act: () => setSaving(true) },
            ]}
          >
            <Icon name="more" />
          </Menu>
        </span>
      </Bar>
      <div class="page halves">
        <h1 class="vh">{texts.title}</h1>
        <section class="card">
          <header>
            <h2>{origin ? texts.replaying(`…${origin.slice(-8)}`) : texts.task}</h2>
            <span class="gap" />
            <Segments
              label={texts.from.label}
              value={from}
              options={[
                ["prompt", texts.from.prompt],
                ["workflow", texts.from.workflow],
                ["earlier", texts.from.earlier],
              ]}
              onChoose={choose}
            />
          </header>
          <div class="form">
            {startError && <ErrorBox error={startError} />}
            <Refused error={error} messages={messages} />
            <Source from={from} draft={draft} workflows={workflows} messages={messages} />
            {from !== "earlier" && (
              <>
                <SchemaForm
                  label={texts.input}
                  hint={texts.inputHint}
                  schema={schema}
                  value={request.input}
                  messages={messages}
                  path="input"
                  onChange={(input) => set({ input })}
                />
                <FileFields
                  files={request.files ?? []}
                  error={messages.get("files")}
                  onBusy={setUploading}
                  onChange={(change) =>
                    set(({ files = [] }) => ({ files: change(files).length ? change(files) : undefined }))
                  }
                />
                {credentials.length > 0 && (
                  <div role="group" aria-label={texts.credentials}>
                    <span class="lab">{texts.credentials}</span>
                    {credentials.map((name) => (
                      <TextField
                        key={name}
                        label={texts.credentialOf(name)}
                        hint={texts.credentialsHint}
                        type="password"
                        value={secrets[name] ?? ""}
                        onText={(text) => setSecrets({ ...secrets, [name]: text })}
                      />
                    ))}
                  </div>
                )}
                <ModelAndLimits request={request} messages={messages} set={set} />
                <Rights request={request} set={set} canForget />
                <Options request={request} messages={messages} set={set} canCallBack />
              </>
            )}
          </div>
        </section>
        <div class="aside">
          {origin && <Original id={origin} />}
          <section class="card">
            <header>
              <h2>{texts.request}</h2>
            </header>
            <div class="form">
              <TextArea
                label={<span class="vh">{texts.request}</span>}
                hint={texts.requestHint}
                error={draft.isText ? undefined : t.common.notJson}
                mono
                rows={Math.min(28, Math.max(12, draft.text.split("\n").length + 1))}
                value={draft.text}
                onText={draft.setText}
              />
            </div>
          </section>
        </div>
      </div>
      {isSaving && <SaveWorkflow request={request} onClose={() => setSaving(false)} />}
    </main>
  );
}
