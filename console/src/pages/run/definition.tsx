// The request as the run used it, with ways to use it again.
import { useState } from "preact/hooks";
import { call, type Api, type ApiError } from "../../api/client.ts";
import { cli, curl } from "../../model/command.ts";
import { navigate } from "../../router.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import { newText } from "../../text/new.ts";
import { Button, copyText, ErrorBox } from "../../ui/basics.tsx";
import { Json } from "../../ui/code.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/form.tsx";
import { toast } from "../../ui/toast.tsx";

const texts = runText.definition;

/** Saves a request under a name. A workflow has no retention setting, callback or origin. */
export function SaveWorkflow({ request, onClose }: { request: Api.RunRequest; onClose: () => void }) {
  const [name, setName] = useState("");
  const [error, setError] = useState<string>();
  const save = (event: Event) => {
    event.preventDefault();
    const {
      zero_data_retention: _retention,
      callback: _callback,
      replay_of: _origin,
      workflow: _workflow,
      prompt = "",
      ...rest
    } = request;
    call("PUT /v1/workflows/{name}", { path: { name }, body: { ...rest, prompt } })
      .then(() => {
        toast(texts.saved(name));
        navigate(`/workflows/${name}`);
      })
      .catch((failure: ApiError) => setError(failure.message));
  };
  return (
    <Dialog title={texts.saveAs} onClose={onClose}>
      <form class="form" onSubmit={save}>
        <TextField label={texts.name} value={name} error={error} hint={runText.definition.nameHint} onText={setName} />
        <footer>
          <Button onClick={onClose}>{t.common.cancel}</Button>
          <Button type="submit" kind="primary" disabled={!name}>
            {t.common.save}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Copies a request as `sortie run`, and says what the command cannot do. */
export function copyAsCli(request: Api.RunRequest) {
  const { command, leftOut } = cli(request);
  void copyText(command, leftOut.length ? newText.cliLeavesOut(leftOut.join(", ")) : t.common.copied);
}

export const copyAsCurl = (request: Api.RunRequest) =>
  void copyText(curl({ method: "POST", path: "/v1/runs", body: request }, location.origin));

export function Definition({
  definition,
  error,
}: {
  definition: Api.RunDefinition | undefined;
  error: ApiError | undefined;
}) {
  const [isSaving, setSaving] = useState(false);
  if (error)
    return (
      <div class="page">
        <ErrorBox error={error} />
      </div>
    );
  if (!definition) return null;
  const { request, requires_credentials: credentials } = definition;
  return (
    <div class="page">
      <section class="card">
        <header>
          <h2>{texts.title}</h2>
          <span class="gap" />
          <Button icon="copy" onClick={() => copyAsCurl(request)}>
            {newText.curl}
          </Button>
          <Button icon="tool" class="wide" onClick={() => copyAsCli(request)}>
            {newText.cli}
          </Button>
          <Button icon="workflow" onClick={() => setSaving(true)}>
            {texts.saveAs}
          </Button>
        </header>
        <div class="text">
          {credentials.length > 0 && <p class="hint">{texts.credentials(credentials.join(", "))}</p>}
          <Json value={request} label={texts.title} class="tall" />
        </div>
      </section>
      {isSaving && <SaveWorkflow request={request} onClose={() => setSaving(false)} />}
    </div>
  );
}
