// Files of a new run: dropped, pasted or chosen.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { bytes } from "../../model/time.ts";
import { newText as texts } from "../../text/new.ts";
import { IconButton, Meter } from "../../ui/basics.tsx";
import { Menu } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { toast } from "../../ui/toast.tsx";
import { inlineText, upload } from "./upload.ts";

const MOST = 32;

interface Upload {
  path: string;
  size: number;
  part: number;
  controller: AbortController;
}

interface FilesProps {
  files: Api.RunFile[];
  error: string | undefined;
  onChange: (change: (files: Api.RunFile[]) => Api.RunFile[]) => void;
  onBusy: (isBusy: boolean) => void;
}

export function FileFields({ files, error, onChange, onBusy }: FilesProps) {
  const [uploads, setUploads] = useState<Upload[]>([]);
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const saved = useResource("files", (signal) => call("GET /v1/files", { query: { limit: 20 }, signal }));
  useEffect(() => onBusy(uploads.length > 0), [uploads.length]);

  const add = (file: Api.RunFile) => onChange((before) => [...before.filter(({ path }) => path !== file.path), file]);
  const take = async (file: File) => {
    const path = file.name;
    const content = await inlineText(file);
    if (content !== undefined) return add({ path, content });
    const controller = new AbortController();
    setUploads((all) => [...all, { path, size: file.size, part: 0, controller }]);
    const onProgress = (part: number) =>
      setUploads((all) => all.map((one) => (one.path === path ? { ...one, part } : one)));
    try {
      const { id } = await upload(file, onProgress, controller.signal);
      add({ path, file: id });
    } catch (failure) {
      if (failure instanceof ApiError) toast(texts.uploadFailed(path, failure.message), "bad");
    }
    setUploads((all) => all.filter((one) => one.path !== path));
  };
  const takeAll = (list: FileList | null | undefined) => {
    const chosen = [...(list ?? [])];
    if (files.length + uploads.length + chosen.length > MOST) return toast(texts.tooMany, "bad");
    for (const file of chosen) void take(file);
  };
  useEffect(() => {
    const onPaste = (event: ClipboardEvent) => event.clipboardData?.files.length && takeAll(event.clipboardData.files);
    addEventListener("paste", onPaste);
    return () => removeEventListener("paste", onPaste);
  });
  const list = saved.data.value;
  const items = (Array.isArray(list) ? list : (list?.items ?? [])).map(({ id, name }) => ({
    label: name,
    icon: "file" as const,
    act: () => add({ path: name, file: id }),
  }));
  return (
    <div>
      <span class="lab">
        {texts.files}
        <span class="gap" />
        {items.length > 0 && (
          <Menu label={texts.addSaved} class="btn ghost small" items={items}>
            <Icon name="plus" />
            {texts.addSaved}
          </Menu>
        )}
      </span>
      <div
        class={`drop ${isOver ? "over" : ""}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          takeAll(event.dataTransfer?.files);
        }}
      >
        {files.map(({ path, content }) => (
          <div key={path} class="dropped">
            <Icon name="file" />
            <span class="mono t">{path}</span>
            <span class="dim">
              {content === undefined
                ? texts.saved
                : `${bytes(new TextEncoder().encode(content).length)} · ${texts.inline}`}
            </span>
            <span class="gap" />
            <IconButton
              label={texts.remove(path)}
              icon="cross"
              onClick={() => onChange((before) => before.filter((file) => file.path !== path))}
            />
          </div>
        ))}
        {uploads.map(({ path, size, part, controller }) => (
          <div key={path} class="dropped">
            <Icon name="file" />
            <span class="mono t">{path}</span>
            <span class="dim">
              {bytes(size)} · {texts.uploading}
            </span>
            <span class="gap" />
            <Meter label={texts.uploadOf(path)} used={part} whole={1} />
            <IconButton label={texts.abort(path)} icon="cross" onClick={() => controller.abort()} />
          </div>
        ))}
        <p class="hint">
          {texts.drop.before}
          <button type="button" class="as-link" onClick={() => input.current?.click()}>
            {texts.drop.choose}
          </button>
          {texts.drop.after}
        </p>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label={texts.files}
          onChange={(event) => takeAll(event.currentTarget.files)}
        />
      </div>
      {error && (
        <p class="error">
          <Icon name="warning" />
          {error}
        </p>
      )}
    </div>
  );
}
