// The map of a run: lanes of spans over time, the cost with the budget, the size of the conversation. Dragging selects a range.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Fold, Point, Span } from "../../model/fold.ts";
import { money, plainMoney } from "../../model/money.ts";
import { lanesOf, type Lane } from "../../model/spans.ts";
import type { Scale } from "../../model/scale.ts";
import { count, duration } from "../../model/time.ts";
import { runText } from "../../text/run.ts";
import { COLOURS } from "./labels.ts";

interface MapProps {
  fold: Fold;
  scale: Scale;
  now: number;
  isLive: boolean;
  budget: number;
  window?: number | undefined;
  selected?: Span | undefined;
  range?: [number, number] | undefined;
  onRange: (range: [number, number] | undefined) => void;
  onPick: (time: number) => void;
}

const LEFT = 66;
const LEFT_NARROW = 52;
const RIGHT = 12;
const LANE = 14;
const CURVE = 44;
const DRAGGED = 5;
const name = (lane: Lane) =>
  lane.kind === "turn" ? runText.map.model : lane.kind === "tool" ? runText.map.tools : lane.name;

/** The bars of one kind as one path. Bars within one pixel are one bar, so a long run has few of them. */
function barsOf(spans: Span[], x: (time: number) => number, y: number, now: number): string {
  let path = "";
  let from = -1;
  let to = -1;
  const close = () => {
    const width = Math.max(0.5, to - from - 2);
    if (to >= 0) path += `M${(from + 1).toFixed(1)} ${y + 1}h${width.toFixed(1)}v7h${(-width).toFixed(1)}z`;
  };
  for (const span of spans) {
    const start = x(span.start);
    const end = x(span.end ?? now);
    if (to >= 0 && start <= to + 1) {
      to = Math.max(to, end);
    } else {
      close();
      [from, to] = [start, end];
    }
  }
  close();
  return path;
}

/** A line through points, thinned to one point a pixel. */
function lineOf(points: Point[], x: (time: number) => number, y: (value: number) => number, end: number): string {
  let path = "";
  let last = -1;
  for (const [index, { at, value }] of points.entries()) {
    const place = x(at);
    if (place - last < 1 && index < points.length - 1) continue;
    path += `${path ? "L" : "M"}${place.toFixed(1)} ${y(value).toFixed(1)}`;
    last = place;
  }
  return path && `${path}L${end.toFixed(1)} ${y(points.at(-1)!.value).toFixed(1)}`;
}

/** Mark of a stretch that is left out. */
function zigzag(x: number, bottom: number): string {
  const points = Array.from(
    { length: Math.ceil(bottom / 6) },
    (_, index) => `${(x + (index % 2 ? 2.5 : -2.5)).toFixed(1)} ${6 + index * 6}`,
  );
  return `M${points.join("L")}`;
}

function useWidth() {
  const ref = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)));
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}

export function RunMap(props: MapProps) {
  const { ref, width } = useWidth();
  const { fold, now } = props;
  const label = runText.map.label(
    fold.modelCalls,
    fold.toolCalls,
    money(fold.costMicros),
    duration(now - (fold.start ?? now)),
  );
  return (
    <figure class="map" ref={ref}>
      {width > 0 && <Drawing {...props} width={width} label={label} />}
    </figure>
  );
}

function Drawing({
  fold,
  scale,
  now,
  isLive,
  budget,
  window,
  selected,
  range,
  onRange,
  onPick,
  width,
  label,
}: MapProps & { width: number; label: string }) {
  const [drag, setDrag] = useState<[number, number]>();
  const left = width < 500 ? LEFT_NARROW : LEFT;
  const lanes = lanesOf(fold, width < 500 ? 1 : 2);
  const inner = width - left - RIGHT;
  const x = (time: number) => left + scale.at(time) * inner;
  const timeAt = (place: number) => scale.timeAt(Math.min(1, Math.max(0, (place - left) / inner)));
  const bottom = 18 + lanes.length * LANE + CURVE;
  const height = bottom + 18;
  const hasBudget = budget > 0 && budget < fold.costMicros * 3;
  const top = Math.max(hasBudget ? budget : 0, fold.costMicros * 1.15, 1);
  const costY = (value: number) => bottom - (value / top) * (CURVE - 6);
  const most = Math.max(...fold.context.map(({ value }) => value), 1);
  const contextTop = window && most * 4 > window ? window : most * 1.15;
  const contextY = (value: number) => bottom - (value / contextTop) * (CURVE - 6);
  const end = x(now);
  const start = { at: fold.start ?? now, value: 0 };
  const cost = lineOf([start, ...fold.cost], x, costY, end);
  const marked = drag ?? (range ? [x(range[0]), x(range[1])] : selected && [x(selected.start), x(selected.end ?? now)]);

  const placeOf = (event: PointerEvent) =>
    event.clientX - (event.currentTarget as Element).getBoundingClientRect().left;
  const onUp = () => {
    if (!drag) return;
    const [from, to] = [Math.min(...drag), Math.max(...drag)];
    setDrag(undefined);
    if (to - from < DRAGGED) onPick(timeAt(from));
    else onRange([timeAt(from), timeAt(to)]);
  };
  return (
    <svg
      viewBox={`0 0 ${width} ${height}`}
      height={height}
      role="img"
      aria-label={label}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag([placeOf(event), placeOf(event)]);
      }}
      onPointerMove={(event) => drag && setDrag([drag[0], placeOf(event)])}
      onPointerUp={onUp}
      onPointerCancel={() => setDrag(undefined)}
    >
      <defs>
        <linearGradient id="cost-fill" x1="0" y1="0" x2="0" y2="1">
          <stop offset="0" stop-color="var(--accent-fill)" stop-opacity=".28" />
          <stop offset="1" stop-color="var(--accent-fill)" stop-opacity="0" />
        </linearGradient>
      </defs>
      {scale.ticks.map(({ place, ms }) => {
        const at = left + place * inner;
        return (
          <g key={ms}>
            <line x1={at} x2={at} y1={6} y2={bottom + 2} class="grid" />
            <text x={Math.min(at, width - 4)} y={bottom + 13} text-anchor={at > width - 24 ? "end" : "middle"}>
              {ms ? duration(ms).replace(".0 ", " ") : "0 s"}
            </text>
          </g>
        );
      })}
      {scale.breaks.map(({ place, ms }) => (
        <g key={place} class="gap">
          <title>{runText.map.gap(duration(ms))}</title>
          <path d={zigzag(left + place * inner, bottom)} />
        </g>
      ))}
      {lanes.map((lane, index) => {
        const y = 11 + index * LANE;
        const retries = lane.spans.filter(({ kind }) => kind === "retry");
        const bars = retries.length ? lane.spans.filter(({ kind }) => kind !== "retry") : lane.spans;
        return (
          <g key={lane.kind + lane.name}>
            <text x={10} y={y + 8.5}>
              {name(lane).slice(0, left < LEFT ? 7 : 9)}
            </text>
            <path d={barsOf(bars, x, y, now)} class="bars" fill={COLOURS[lane.kind]} stroke={COLOURS[lane.kind]} />
            {retries.length > 0 && (
              <path d={barsOf(retries, x, y, now)} class="bars" fill={COLOURS.retry} stroke={COLOURS.retry} />
            )}
          </g>
        );
      })}
      {fold.live && (
        <rect
          x={x(fold.live.start)}
          y={11}
          width={Math.max(2, end - x(fold.live.start))}
          height={9}
          fill={COLOURS.turn}
          opacity=".7"
        />
      )}
      <text x={10} y={bottom - 12}>
        {runText.map.cost}
      </text>
      {hasBudget && (
        <>
          <line x1={left} x2={width - RIGHT} y1={costY(budget)} y2={costY(budget)} class="limit" />
          <text x={left + 6} y={costY(budget) + 12} class="limit">
            {runText.map.budget(plainMoney(budget))}
          </text>
        </>
      )}
      {cost && <path d={`${cost}V${bottom}H${x(start.at)}z`} fill="url(#cost-fill)" />}
      {cost && <path d={cost} class="cost" />}
      {fold.context.length > 1 && most > 1 && (
        <g class="context">
          <title>{`${runText.map.context} ${count(most)}${window ? `, ${runText.map.window(count(window))}` : ""}`}</title>
          <path d={lineOf(fold.context, x, contextY, x(fold.context.at(-1)!.at))} />
          {fold.compactions.map((at) => (
            <path key={at} d={`M${x(at) - 3} ${bottom - CURVE + 4}h6l-3 5z`} class="compaction">
              <title>{runText.map.compaction}</title>
            </path>
          ))}
          <text x={10} y={bottom}>
            {runText.map.context}
          </text>
        </g>
      )}
      {isLive && <line x1={end} x2={end} y1={4} y2={bottom + 2} class="now" />}
      {isLive && <circle cx={end} cy={costY(fold.costMicros)} r={3.5} class="now" />}
      {marked && (
        <rect
          x={Math.min(...marked)}
          y={5}
          width={Math.max(2, Math.abs(marked[1]! - marked[0]!))}
          height={bottom - 3}
          rx={3}
          class="brush"
        />
      )}
    </svg>
  );
}
