// Keyboard shortcuts.
import { useEffect, useRef } from "preact/hooks";
import { singleKeys } from "../session.ts";

const PRESSING = ["Enter", " "];
const SCROLLING = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "End"];

/** Keys that the focused element takes itself: links and buttons are pressed, text in a box is scrolled. */
function isOwn(key: string, target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  if (PRESSING.includes(key)) return target.closest("a, button, summary") !== null;
  return SCROLLING.includes(key) && target.closest("pre[tabindex], .body[tabindex]") !== null;
}

const isTyping = (target: EventTarget | null) =>
  target instanceof Element &&
  target.closest("input, textarea, select, [contenteditable], dialog, [role=menu]") !== null;

/** Calls what belongs to a key: `j`, `End`, `?`, or `mod+k` with Control or Command. */
export function useKeys(keys: Record<string, () => void>) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isModified = event.metaKey || event.ctrlKey;
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const act = latest.current[isModified ? `mod+${key}` : key];
      if (!act || event.altKey || event.defaultPrevented || isOwn(event.key, event.target)) return;
      if (!isModified && (isTyping(event.target) || (key.length === 1 && singleKeys.value === "off"))) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
