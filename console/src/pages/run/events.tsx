// The recorded events, unchanged.
import { useState } from "preact/hooks";
import type { Fold } from "../../model/fold.ts";
import { clock } from "../../model/time.ts";
import { visible } from "../../model/ansi.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import { Json } from "../../ui/code.tsx";
import { Icon } from "../../ui/icon.tsx";
import { Rows } from "../../ui/rows.tsx";
import { select, selectedEvent } from "./view.ts";

const ROW = 28;

/** Events are added to the fold in place; `version` changes with them. */
export function Events({ fold }: { fold: Fold; version: number }) {
  const [text, setText] = useState("");
  const wanted = text.toLowerCase();
  const rows = wanted
    ? fold.events.filter(
        ({ type, data }) => type.includes(wanted) || JSON.stringify(data).toLowerCase().includes(wanted),
      )
    : fold.events;
  const chosen = selectedEvent();
  const event = chosen === undefined ? undefined : fold.events[chosen - 1];
  return (
    <div class={`split events-tab ${event ? "" : "alone"}`}>
      <section class="trace" aria-label={runText.tabs.events}>
        <div class="tools filter-row">
          <label class="field">
            <Icon name="search" />
            <input
              type="search"
              aria-label={runText.events.filter}
              placeholder={runText.events.filter}
              value={text}
              onInput={(input) => setText(input.currentTarget.value)}
            />
          </label>
        </div>
        <Rows
          rows={rows}
          rowHeight={ROW}
          label={runText.tabs.events}
          shown={event ? rows.indexOf(event) : -1}
          render={({ id, type, data, created_at }, index) => (
            <div
              key={id}
              class="event"
              role="row"
              aria-rowindex={index + 1}
              aria-selected={id === chosen}
              onClick={() => select(id)}
            >
              <span role="cell" class="dim">
                {id}
              </span>
              <span role="cell" class="dim">
                {clock(created_at)}
              </span>
              <b role="cell">{type}</b>
              <span role="cell" class="t dim">
                {visible(JSON.stringify(data).slice(0, 300))}
              </span>
            </div>
          )}
        >
          {rows.length === 0 && (
            <p class="none dim">{fold.events.length ? runText.events.none : runText.trace.empty}</p>
          )}
        </Rows>
      </section>
      {event && (
        <aside class="insp sheet" aria-label={runText.inspector.label}>
          <header>
            <b>{event.type}</b>
            <span class="dim mono">#{event.id}</span>
            <span class="gap" />
            <button type="button" class="btn ghost icon" aria-label={t.common.close} onClick={() => select(undefined)}>
              <Icon name="cross" />
            </button>
          </header>
          <div class="body">
            <Json value={event} label={event.type} />
          </div>
        </aside>
      )}
    </div>
  );
}
