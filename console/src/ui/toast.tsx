// Short messages at the edge of the page, and the one live region of screen readers.
import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
  look: "ok" | "bad";
}

const SHOWN_MS = 5000;
const toasts = signal<Toast[]>([]);
let next = 1;

export function toast(text: string, look: Toast["look"] = "ok") {
  const id = next;
  next += 1;
  toasts.value = [...toasts.value.slice(-2), { id, text, look }];
  setTimeout(() => (toasts.value = toasts.value.filter((one) => one.id !== id)), SHOWN_MS);
}

const announcement = signal("");
let lastAnnounced = 0;

/** Tells screen readers, at most once in five seconds. */
export function announce(text: string) {
  const now = Date.now();
  if (now - lastAnnounced < SHOWN_MS) return;
  lastAnnounced = now;
  announcement.value = text;
}

export const Toasts = () => (
  <>
    <div class="toasts" role="status">
      {toasts.value.map(({ id, text, look }) => (
        <p key={id} class={`tip ${look}`}>
          {text}
        </p>
      ))}
    </div>
    <p class="vh" aria-live="polite">
      {announcement}
    </p>
  </>
);
