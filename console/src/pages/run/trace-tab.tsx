// The trace with its map and the details of a step, and the keys that move through them.
import { useEffect, useMemo, useState } from "preact/hooks";
import { isFinal } from "../../model/events.ts";
import { timeScale } from "../../model/scale.ts";
import { eventsSince, isTop, nextFailure, rowsOf, spanOf } from "../../model/spans.ts";
import { copyText } from "../../ui/basics.tsx";
import { useKeys } from "../../ui/keys.ts";
import { causeOf } from "./head.tsx";
import { StreamChip } from "./stream-chip.tsx";
import { Inspector, type InspectorTab } from "./inspector.tsx";
import { RunMap } from "./map.tsx";
import { type RunState } from "./state.ts";
import { Trace } from "./trace.tsx";
import { filterOfQuery, select, selectedEvent, setRange } from "./view.ts";

// The map of a run that works leaves room for what comes.
const ROOM = 1.12;

/** The trace with its map and the details of the selected step. */
export function TraceTab({
  state,
  now,
  contextWindow,
}: {
  state: RunState;
  now: number;
  contextWindow: number | undefined;
}) {
  const { fold } = state;
  const version = state.version.value;
  const isLive = !isFinal(fold.status);
  const start = fold.start ?? now;
  const end = isLive ? start + (now - start) * ROOM : now;
  const filter = filterOfQuery(start);
  const [collapsed, setCollapsed] = useState<ReadonlySet<number>>(new Set());
  const [isFilterOpen, setFilterOpen] = useState(false);
  const [seen, setSeen] = useState<number>();
  const [tab, setTab] = useState<InspectorTab>("call");
  const rows = useMemo(() => rowsOf(fold, collapsed, filter, now), [version, collapsed, location.search]);
  const whole = useMemo(
    () => timeScale(fold.live ? [...fold.spans, { start: fold.live.start }] : fold.spans, start, end),
    [version, end],
  );
  const scale = useMemo(() => (filter.range ? timeScale([], ...filter.range) : whole), [whole, filter.range?.join()]);
  const chosen = selectedEvent();
  const selected = chosen === undefined ? undefined : spanOf(fold, chosen);
  // Without a choice the details are those of what happens, or of what went wrong.
  const shown =
    selected ?? (isLive ? fold.spans.at(-1) : (causeOf(fold) ?? fold.spans.findLast(({ kind }) => kind === "turn")));
  const isFollowing = isLive && seen === undefined && chosen === undefined;
  const leave = () => setSeen((before) => before ?? state.now());
  useEffect(() => void (chosen !== undefined && isLive && leave()), [chosen]);

  const toggle = (step: number) => {
    const next = new Set(collapsed);
    if (!next.delete(step)) next.add(step);
    setCollapsed(next);
  };
  const fold_ = (isCollapsed: boolean) => {
    if (selected && collapsed.has(selected.step) !== isCollapsed) toggle(selected.step);
    const turn = selected && fold.turns.get(selected.step);
    if (isCollapsed && turn && !isTop(selected)) select(turn.id);
  };
  const move = (step: number) => {
    const index = selected ? rows.indexOf(selected) : -1;
    select(rows[Math.max(0, Math.min(rows.length - 1, index + step))]?.id);
  };
  const followAgain = () => {
    select(isLive ? undefined : rows.at(-1)?.id);
    setSeen(undefined);
  };
  const failure = (step: 1 | -1) => {
    const found = nextFailure(rows, chosen, step);
    if (found) select(found.id);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    ArrowLeft: () => fold_(true),
    ArrowRight: () => fold_(false),
    Enter: () => setTab("call"),
    g: () => select(rows[0]?.id),
    End: followAgain,
    f: () => setFilterOpen(!isFilterOpen),
    "[": () => failure(-1),
    "]": () => failure(1),
    Escape: () => select(undefined),
    e: () => setTab("json"),
    l: () => void copyText(location.href),
  });
  const pick = (time: number) => {
    const near =
      rows.filter((span) => span.start <= time && (span.end ?? now) >= time).at(-1) ??
      rows.find((span) => span.start >= time);
    if (near) select(near.id);
  };
  return (
    <>
      <RunMap
        fold={fold}
        scale={whole}
        now={now}
        isLive={isLive}
        budget={state.run.value?.max_cost_micros ?? 0}
        window={contextWindow}
        selected={selected}
        range={filter.range}
        onRange={(range) => setRange(range, start)}
        onPick={pick}
      />
      <div class="split">
        <Trace
          fold={fold}
          rows={rows}
          now={now}
          scale={scale}
          filter={filter}
          selected={selected}
          collapsed={collapsed}
          onToggle={toggle}
          isFilterOpen={isFilterOpen}
          onFilter={() => setFilterOpen(!isFilterOpen)}
          isFollowing={isFollowing}
          onScrollAway={leave}
          onFollow={followAgain}
          newEvents={isLive && seen !== undefined ? eventsSince(fold, seen) : 0}
          onZoom={
            selected && selected.end !== selected.start
              ? () => setRange([selected.start, selected.end ?? now], start)
              : undefined
          }
          onWhole={filter.range ? () => setRange(undefined, start) : undefined}
          chip={<StreamChip state={state} />}
        />
        <Inspector span={shown} isChosen={selected !== undefined} fold={fold} now={now} tab={tab} onTab={setTab} />
      </div>
    </>
  );
}
