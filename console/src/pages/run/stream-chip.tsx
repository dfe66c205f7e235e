// How the stream of a run does: live, reconnecting, paused or ended.
import { runText } from "../../text/run.ts";
import type { RunState } from "./state.ts";

export function StreamChip({ state }: { state: RunState }) {
  const follow = state.follow.value;
  const behind = state.behind.value;
  const text = follow === "live" && behind !== undefined ? runText.behind(behind) : runText.states[follow];
  return (
    <span class={`chip state-${follow}`}>
      <span class={`dot ${follow === "live" ? "pulse" : ""}`} />
      {text}
    </span>
  );
}
