// Keyboard shortcuts.
import { useEffect, useRef } from "preact/hooks";
import { singleKeys } from "../session.ts";

/** Keys that a focused link or button takes itself. */
const isOwn = (key: string, target: EventTarget | null) =>
  ["Enter", " "].includes(key) && target instanceof Element && target.closest("a, button, summary") !== null;

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
