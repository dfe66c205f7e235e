// Files of a run: those it was given, and those it left.
import { useEffect, useState } from "preact/hooks";
import { ApiError, addressOf, apiBase, call, send, type Api } from "../../api/client.ts";
import type { Artifact } from "../../model/events.ts";
import { bytes } from "../../model/time.ts";
import { visible } from "../../model/ansi.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import { Button, CopyButton, ErrorBox, IconButton } from "../../ui/basics.tsx";
import { Code } from "../../ui/code.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { toast } from "../../ui/toast.tsx";

const texts = runText.files;
const SHOWN = 512 * 1024;
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const isText = (type: string) => /^text\/|[/+](json|xml|yaml|csv|javascript|toml)\b/.test(type);

const addressOfArtifact = (run: string, path: string) =>
  apiBase + addressOf("GET /v1/runs/{id}/artifacts/{path}", { id: run, path })[1];

/** Shows text as text and pictures from memory. A file is never opened as a document. */
function Preview({ run, artifact, onClose }: { run: string; artifact: Artifact; onClose: () => void }) {
  const [content, setContent] = useState<{ text?: string; picture?: string; isCut?: boolean }>({});
  const [error, setError] = useState<ApiError>();
  const isPicture = PICTURES.includes(artifact.content_type);
  useEffect(() => {
    let picture: string | undefined;
    const load = async () => {
      const path = addressOf("GET /v1/runs/{id}/artifacts/{path}", { id: run, path: artifact.path })[1];
      const isCut = !isPicture && artifact.size > SHOWN;
      const response = await send("GET", path, isCut ? { headers: { Range: `bytes=0-${SHOWN - 1}` } } : {});
      if (isPicture) setContent({ picture: (picture = URL.createObjectURL(await response.blob())) });
      else setContent({ text: await response.text(), isCut });
    };
    load().catch((failure: ApiError) => setError(failure));
    return () => picture && URL.revokeObjectURL(picture);
  }, []);
  return (
    <Dialog title={artifact.path} onClose={onClose} class="large">
      <div class="form">
        {error && <ErrorBox error={error} />}
        {content.picture && <img class="preview" src={content.picture} alt={artifact.path} />}
        {content.text !== undefined && <Code text={content.text} label={artifact.path} class="tall" />}
        {content.isCut && <p class="hint">{texts.cut(bytes(SHOWN))}</p>}
      </div>
    </Dialog>
  );
}

function Keep({ run, artifact, onClose }: { run: string; artifact: Artifact; onClose: () => void }) {
  const [name, setName] = useState(artifact.path.split("/").at(-1)!);
  const [error, setError] = useState<string>();
  const keep = (event: Event) => {
    event.preventDefault();
    call("POST /v1/files", { body: { run, path: artifact.path, name } })
      .then((file) => {
        toast(texts.kept(file.name));
        onClose();
      })
      .catch((failure: ApiError) => setError(failure.message));
  };
  return (
    <Dialog title={texts.keep} onClose={onClose}>
      <form class="form" onSubmit={keep}>
        <TextField label={texts.keepName} value={name} error={error} onText={setName} />
        <footer>
          <Button onClick={onClose}>{t.common.cancel}</Button>
          <Button type="submit" kind="primary">
            {t.common.save}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

export function ArtifactList({ run, artifacts }: { run: string; artifacts: Artifact[] }) {
  const [shown, setShown] = useState<Artifact>();
  const [kept, setKept] = useState<Artifact>();
  return (
    <>
      <ul class="list files">
        {artifacts.map((artifact) => {
          const canPreview = isText(artifact.content_type) || PICTURES.includes(artifact.content_type);
          return (
            <li key={artifact.path}>
              <Icon name="file" />
              {canPreview ? (
                <button type="button" class="as-link t mono" onClick={() => setShown(artifact)}>
                  {visible(artifact.path)}
                </button>
              ) : (
                <span class="t mono">{visible(artifact.path)}</span>
              )}
              <span class="dim num">{bytes(artifact.size)}</span>
              <span class="dim mono hash" title={artifact.sha256}>
                {artifact.sha256.slice(0, 12)}
              </span>
              <CopyButton text={() => artifact.sha256} label={`${t.common.copy} SHA-256`} />
              <IconButton label={`${texts.keep}: ${artifact.path}`} icon="plus" onClick={() => setKept(artifact)} />
              <a
                class="btn ghost icon"
                href={addressOfArtifact(run, artifact.path)}
                download={artifact.path.split("/").at(-1)}
                aria-label={`${t.common.download} ${artifact.path}`}
                title={t.common.download}
              >
                <Icon name="download" />
              </a>
            </li>
          );
        })}
      </ul>
      {shown && <Preview run={run} artifact={shown} onClose={() => setShown(undefined)} />}
      {kept && <Keep run={run} artifact={kept} onClose={() => setKept(undefined)} />}
    </>
  );
}

function Given({ file }: { file: Api.RunFile }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li class={isOpen ? "open" : ""}>
      <Icon name="file" />
      {file.content === undefined ? (
        <span class="t mono">{visible(file.path)}</span>
      ) : (
        <button type="button" class="as-link t mono" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {visible(file.path)}
        </button>
      )}
      {file.content === undefined ? (
        <>
          <span class="dim">{texts.saved}</span>
          <a
            class="btn ghost icon"
            href={`${apiBase}/v1/files/${file.file}/content`}
            download
            aria-label={`${t.common.download} ${file.path}`}
          >
            <Icon name="download" />
          </a>
        </>
      ) : (
        <span class="dim num">
          {texts.inline} · {bytes(new TextEncoder().encode(file.content).length)}
        </span>
      )}
      {isOpen && file.content !== undefined && <Code text={file.content} label={file.path} />}
    </li>
  );
}

export function Files({
  run,
  request,
  artifacts,
}: {
  run: string;
  request: Api.RunRequest | undefined;
  artifacts: Artifact[];
}) {
  return (
    <div class="page">
      <section class="card">
        <header>
          <h2>{texts.out}</h2>
        </header>
        {artifacts.length ? <ArtifactList run={run} artifacts={artifacts} /> : <p class="none dim">{texts.noneOut}</p>}
      </section>
      <section class="card">
        <header>
          <h2>{texts.in}</h2>
        </header>
        {request?.files?.length ? (
          <ul class="list files">
            {request.files.map((file) => (
              <Given key={file.path} file={file} />
            ))}
          </ul>
        ) : (
          <p class="none dim">{texts.noneIn}</p>
        )}
      </section>
    </div>
  );
}
