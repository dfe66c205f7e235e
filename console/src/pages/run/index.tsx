// The page of a run.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, type ApiError } from "../../api/client.ts";
import { loadModels } from "../../api/models.ts";
import { useResource } from "../../api/resource.ts";
import { isFinal } from "../../model/events.ts";
import { href, navigate, setQuery } from "../../router.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import { Button, copyText, Empty, ErrorBox, Skeleton, ButtonLink } from "../../ui/basics.tsx";
import { ask, Menu, type MenuItem } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { useKeys } from "../../ui/keys.ts";
import { toast } from "../../ui/toast.tsx";
import { Bar, runsPlace } from "../frame.tsx";
import { useNow } from "../runs/index.tsx";
import { Answer } from "./answer.tsx";
import { copyAsCurl, Definition } from "./definition.tsx";
import { Deliveries } from "./deliveries.tsx";
import { Events } from "./events.tsx";
import { Files } from "./files.tsx";
import { Chips, EndReason, Facts, Retention, Title } from "./head.tsx";
import { readAndDelete, useRun, type RunState } from "./state.ts";
import { StreamChip } from "./stream-chip.tsx";
import { Tools } from "./tools.tsx";
import { Transcript } from "./transcript.tsx";
import { selectedEvent, TABS, tabOfQuery, type Tab } from "./view.ts";
import { TraceTab } from "./trace-tab.tsx";

const LIVE_TICK_MS = 250;

function useDefinition(state: RunState) {
  const run = state.run.value;
  const isKept = run !== undefined && !run.zero_data_retention;
  return useResource(isKept ? state.id : "", async (signal) =>
    isKept ? call("GET /v1/runs/{id}/definition", { path: { id: state.id }, signal }) : undefined,
  );
}

function useActions(state: RunState, request: Parameters<typeof copyAsCurl>[0] | undefined) {
  const { id } = state;
  const run = state.run.value;
  const cancel = () =>
    ask({
      title: runText.cancelTitle,
      explain: runText.cancelExplain,
      confirm: runText.actions.cancel,
      cancel: runText.keepRunning,
      act: () =>
        call("POST /v1/runs/{id}/cancel", { path: { id } })
          .then((cancelled) => void (state.run.value = cancelled))
          .catch((error: ApiError) => toast(error.message, "bad")),
    });
  const compare = () => navigate(run?.replay_of ? `/runs/compare?a=${run.replay_of}&b=${id}` : `/runs/compare?a=${id}`);
  const replay = () => navigate(`/runs/new?from=${id}`);
  const more: MenuItem[] = [
    { label: runText.actions.copyId, icon: "copy", act: () => void copyText(id) },
    { label: runText.actions.copyLink, icon: "link", act: () => void copyText(location.href) },
    ...(request ? [{ label: runText.actions.curl, icon: "tool" as const, act: () => copyAsCurl(request) }] : []),
    { label: runText.actions.replay, icon: "replay", act: replay },
    { label: runText.actions.compare, icon: "compare", act: compare },
  ];
  return { cancel, compare, replay, more };
}

function Tabs({ id, tabs, tab, counts }: { id: string; tabs: Tab[]; tab: Tab; counts: Partial<Record<Tab, number>> }) {
  const current = useRef<HTMLAnchorElement>(null);
  // A phone has no room for all of them.
  useEffect(() => current.current?.scrollIntoView({ block: "nearest", inline: "center" }), [tab]);
  return (
    <nav class="tabs run-tabs" aria-label={runText.tabsLabel}>
      {tabs.map((one) => (
        <a
          key={one}
          href={href(`/runs/${id}?tab=${one}`)}
          {...(one === tab && { "aria-current": "page" as const, ref: current })}
        >
          {runText.tabs[one]}
          {counts[one] ? <span class="n">{counts[one].toLocaleString("en-US")}</span> : null}
        </a>
      ))}
    </nav>
  );
}

export function RunPage({ id = "" }: { id?: string }) {
  const state = useRun(id);
  const run = state.run.value;
  const { fold } = state;
  const definition = useDefinition(state);
  const models = useResource("models", loadModels);
  const [answer, setAnswer] = useState<string>();
  const { cancel, compare, replay, more } = useActions(state, definition.data.value?.request);
  const status = run && isFinal(run.status) ? run.status : fold.events.length ? fold.status : run?.status;
  useNow(status !== undefined && !isFinal(status), LIVE_TICK_MS);
  useKeys({ c: compare, r: replay });

  if (!run) {
    const error = state.error.value;
    return (
      <main class="main-inner" key="loading">
        <Bar title={runText.title} parent={runsPlace} />
        <div class="page">
          {error?.status === 404 ? (
            <Empty isPage icon="search" title={runText.notFound}>
              <ButtonLink to="/runs">{t.common.toRuns}</ButtonLink>
            </Empty>
          ) : (
            <>
              <h1 class="vh">{runText.title}</h1>
              {error ? <ErrorBox error={error} retry={() => window.location.reload()} /> : <Skeleton rows={10} />}
            </>
          )}
        </div>
      </main>
    );
  }
  const shown = { ...run, status: status as typeof run.status };
  const isKept = !run.zero_data_retention;
  const request = definition.data.value?.request;
  const isDone = isFinal(shown.status);
  const output = isKept ? (run.output ?? fold.output) : answer;
  const artifacts = run.artifacts ?? fold.spans.flatMap(({ event }) => (event.type === "artifact" ? [event.data] : []));
  const hasEvents = isKept || fold.events.length > 0 || !isDone;
  const tabs = TABS.filter(
    (tab) =>
      tab === "answer" ||
      (tab === "trace" || tab === "transcript" || tab === "events" || tab === "tools" ? hasEvents : isKept),
  );
  const first: Tab = isDone && (shown.status === "succeeded" || !hasEvents) ? "answer" : "trace";
  const chosen = tabOfQuery();
  const tab = chosen && tabs.includes(chosen) ? chosen : selectedEvent() !== undefined && hasEvents ? "trace" : first;
  const counts: Partial<Record<Tab, number>> = {
    events: fold.events.length,
    tools: fold.toolCalls,
    files: artifacts.length + (request?.files?.length ?? 0),
  };
  const model =
    run.model ??
    fold.spans.map(({ event }) => (event.type === "model_call" ? event.data.model : undefined)).find(Boolean);
  const contextWindow = models.data.value?.models.find((one) => one.id === model)?.context_window;
  const now = state.now();
  const fallback = request?.description ?? request?.prompt?.trim().split("\n", 1)[0]?.slice(0, 120);
  return (
    <main class={`main-inner run tab-${tab}`} key="run">
      <Bar title={run.workflow ?? run.title ?? t.runs.adHoc} parent={runsPlace}>
        {/* The trace has it next to its steps. */}
        {tab !== "trace" && !isDone && <StreamChip state={state} />}
        <Button icon="compare" class="wide" keys="C" onClick={compare}>
          {runText.actions.compare}
        </Button>
        {isKept && (
          <Button icon="replay" class={isDone ? "" : "wide"} keys="R" onClick={replay}>
            {runText.actions.replay}
          </Button>
        )}
        {!isDone && (
          <Button icon="stop" kind="danger" onClick={cancel}>
            {runText.actions.cancel}
          </Button>
        )}
        <Menu label={t.common.moreActions} items={more}>
          <Icon name="more" />
        </Menu>
      </Bar>
      <header class="head">
        <Title run={shown} fallback={fallback} />
        <Chips run={{ ...run, ...(model && { model }) }} />
        <EndReason run={shown} fold={fold} now={now} />
        <Retention
          run={shown}
          isRead={answer !== undefined}
          onRead={() =>
            readAndDelete(id)
              .then((read) => {
                setAnswer(read.output ?? "");
                setQuery({ tab: "answer" });
              })
              .catch((error: ApiError) => toast(error.message, "bad"))
          }
        />
        {state.error.value && <ErrorBox error={state.error.value} />}
        <Facts run={shown} fold={fold} now={now} />
      </header>
      <Tabs id={id} tabs={tabs} tab={tab} counts={counts} />
      <div class="panel">
        {tab === "answer" && (
          <Answer
            run={shown}
            fold={fold}
            request={request}
            output={output}
            artifacts={artifacts}
            isLoading={isKept && isDone && output === undefined && state.follow.value !== "ended" && !state.error.value}
          />
        )}
        {tab === "trace" && <TraceTab state={state} now={now} contextWindow={contextWindow} />}
        {tab === "transcript" && <Transcript fold={fold} request={request} now={now} />}
        {tab === "events" && <Events fold={fold} version={state.version.value} />}
        {tab === "files" && <Files run={id} request={request} artifacts={artifacts} />}
        {tab === "tools" && <Tools fold={fold} now={now} />}
        {tab === "definition" && <Definition definition={definition.data.value} error={definition.error.value} />}
        {tab === "deliveries" && <Deliveries id={id} />}
      </div>
    </main>
  );
}
