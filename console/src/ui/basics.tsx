// Small parts that every page uses.
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api/client.ts";
import { isFinal } from "../model/events.ts";
import { href } from "../router.ts";
import { t } from "../text/en.ts";
import { Icon, type IconName } from "./icon.tsx";
import { toast } from "./toast.tsx";

type ButtonProps = {
  icon?: IconName;
  kind?: "primary" | "danger" | "ghost";
  keys?: string;
} & ButtonHTMLAttributes<HTMLButtonElement>;

export function Button({ icon, kind, keys, class: className, children, ...rest }: ButtonProps) {
  return (
    <button type="button" class={["btn", kind, className].filter(Boolean).join(" ")} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
      {keys && <kbd aria-hidden="true">{keys}</kbd>}
    </button>
  );
}

/** A link that looks like a button. */
export function ButtonLink({
  icon,
  kind,
  keys,
  to,
  class: className,
  children,
}: {
  icon?: IconName;
  kind?: string;
  keys?: string;
  to: string;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <a class={["btn", kind, className].filter(Boolean).join(" ")} href={href(to)}>
      {icon && <Icon name={icon} />}
      {children}
      {keys && <kbd aria-hidden="true">{keys}</kbd>}
    </a>
  );
}

/** A button that has only an icon, with its name for everybody. */
export const IconButton = ({
  label,
  icon,
  ...rest
}: { label: string; icon: IconName } & ButtonHTMLAttributes<HTMLButtonElement>) => (
  <Button kind="ghost" class="icon" icon={icon} aria-label={label} title={label} {...rest} />
);

const LOOKS: Record<string, [string, IconName?]> = {
  reserving: ["idle"],
  queued: ["idle"],
  starting: ["live"],
  running: ["live"],
  succeeded: ["ok", "check"],
  failed: ["bad", "cross"],
  cancelled: ["idle", "stop"],
  timed_out: ["warn", "clock"],
  interrupted: ["warn", "warning"],
};

export function Status({ status }: { status: string }) {
  const [look, icon] = LOOKS[status] ?? ["idle"];
  return (
    <span class={`st ${look}`}>
      {icon ? <Icon name={icon} /> : <span class={`dot ${isFinal(status) || status === "queued" ? "" : "pulse"}`} />}
      {t.status[status] ?? status}
    </span>
  );
}

/** A label with an icon, in the colours of a status. */
export const Badge = ({ look, icon, children }: { look: string; icon?: IconName; children: ComponentChildren }) => (
  <span class={`st ${look}`}>
    {icon ? <Icon name={icon} /> : <span class="dot" />}
    {children}
  </span>
);

export const Chip = ({
  icon,
  to,
  title,
  children,
}: {
  icon?: IconName;
  to?: string;
  title?: string;
  children: ComponentChildren;
}) => {
  const content = (
    <>
      {icon && <Icon name={icon} />}
      {children}
    </>
  );
  return to ? (
    <a class="chip" href={href(to)} title={title}>
      {content}
    </a>
  ) : (
    <span class="chip" title={title}>
      {content}
    </span>
  );
};

/** Copies by a selection: the clipboard of the browser is missing on pages without HTTPS. */
function copySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "vh";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

export async function copyText(text: string, message: string = t.common.copied) {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  const isCopied = clipboard
    ? await clipboard.writeText(text).then(
        () => true,
        () => false,
      )
    : copySelection(text);
  if (isCopied) toast(message);
  else toast(t.common.copyFailed, "bad");
}

export const CopyButton = ({ text, label = t.common.copy }: { text: () => string; label?: string }) => (
  <IconButton label={label} icon="copy" onClick={() => void copyText(text())} />
);

/** A meter with a part that is used and a part that is held. A level, such as a balance, warns of nothing when it is high. */
export function Meter({
  label,
  used,
  held = 0,
  whole,
  isLevel,
}: {
  label: string;
  used: number;
  held?: number;
  whole: number;
  isLevel?: boolean;
}) {
  const part = (value: number) => (whole ? Math.min(100, (value / whole) * 100) : 0);
  const share = part(used);
  return (
    <span
      class={`meter ${share >= 80 && !isLevel ? "warn" : ""}`}
      role="meter"
      aria-label={label}
      aria-valuenow={Math.round(share)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <i style={{ width: `${share}%` }} />
      {held > 0 && <i class="held" style={{ width: `${Math.min(100 - share, part(held))}%` }} />}
    </span>
  );
}

/** Says that there is nothing, and what to do. With `isPage` it is all that the page has. */
export const Empty = ({
  icon,
  title,
  isPage,
  children,
}: {
  icon: IconName;
  title: string;
  isPage?: boolean;
  children?: ComponentChildren;
}) => (
  <div class="empty">
    <span class="glyph line">
      <Icon name={icon} />
    </span>
    {isPage ? <h1>{title}</h1> : <h2>{title}</h2>}
    {children}
  </div>
);

/** The engine's sentence, its code and request, and a way to try again. */
export function ErrorBox({ error, retry }: { error: ApiError; retry?: () => void }) {
  const [left, setLeft] = useState(error.retryAfter ?? 0);
  useEffect(() => setLeft(error.retryAfter ?? 0), [error]);
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => setLeft(left - 1), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return (
    <div class="notice bad" role="alert">
      <Icon name="warning" />
      <div>
        <p>{error.message}</p>
        <p class="dim mono">
          {error.code}
          {error.requestId && ` · ${t.common.requestId(error.requestId)}`}
        </p>
      </div>
      {retry && (
        <Button onClick={retry} disabled={left > 0}>
          {left > 0 ? t.common.retryIn(left) : t.common.retry}
        </Button>
      )}
    </div>
  );
}

/** Shows `children` once data is there, the error otherwise, and bars of the final height if loading takes long. */
export function Loaded<Data>({
  data,
  error,
  reload,
  rows = 4,
  children,
}: {
  data: Data | undefined;
  error: ApiError | undefined;
  reload?: () => void;
  rows?: number;
  children: (data: Data) => ComponentChildren;
}) {
  return (
    <>
      {error && <ErrorBox error={error} {...(reload && { retry: reload })} />}
      {data !== undefined ? children(data) : !error && <Skeleton rows={rows} />}
    </>
  );
}

const SKELETON_MS = 150;

export function Skeleton({ rows }: { rows: number }) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), SKELETON_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`skeleton ${isLate ? "" : "early"}`} role="status" aria-label={t.common.loading}>
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

/** A moment as text, with the time in UTC as its title. */
export const Time = ({ at, children }: { at: string; children: ComponentChildren }) => (
  <time dateTime={at} title={t.common.utc(at)}>
    {children}
  </time>
);
