// Entry: signs in, then shows the page of the address in the frame.
import { render, type FunctionComponent } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { ApiError, call } from "./api/client.ts";
import { matchPath, path } from "./router.ts";
import { session, start } from "./session.ts";
import { Bar, Frame } from "./pages/frame.tsx";
import { OrganizationsPage } from "./pages/organizations.tsx";
import { RunsPage } from "./pages/runs/index.tsx";
import { SignIn, startError } from "./pages/sign-in.tsx";
import { t } from "./text/en.ts";
import { Button, ButtonLink, Empty, Skeleton } from "./ui/basics.tsx";
import { Questions } from "./ui/dialog.tsx";
import { toast, Toasts } from "./ui/toast.tsx";

const RETRY_MS = 3000;
const PRELOAD_MS = 1500;

type Page = FunctionComponent<Record<string, string>>;
type Area = () => Promise<Record<string, Page>>;

const run: Area = () => import("./pages/run/index.tsx") as Promise<Record<string, Page>>;
const create: Area = () => import("./pages/new/index.tsx") as Promise<Record<string, Page>>;
const compare: Area = () => import("./pages/compare/index.tsx") as Promise<Record<string, Page>>;
const manage: Area = () => import("./pages/manage/index.tsx") as Promise<Record<string, Page>>;

const PAGES: [pattern: string, area: Area, page: string][] = [
  ["/runs", async () => ({ RunsPage }), "RunsPage"],
  ["/runs/new", create, "NewRunPage"],
  ["/runs/compare", compare, "ComparePage"],
  ["/runs/:id", run, "RunPage"],
  ["/workflows", manage, "WorkflowsPage"],
  ["/workflows/new", manage, "WorkflowPage"],
  ["/workflows/:name", manage, "WorkflowPage"],
  ["/schedules", manage, "SchedulesPage"],
  ["/connections", manage, "ConnectionsPage"],
  ["/models", manage, "ModelsPage"],
  ["/keys", manage, "KeysPage"],
  ["/members", manage, "MembersPage"],
  ["/credits", manage, "CreditsPage"],
  ["/usage", manage, "UsagePage"],
  ["/budgets", manage, "BudgetsPage"],
  ["/deliveries", manage, "DeliveriesPage"],
];

const loaded = new Map<Area, Record<string, Page>>([[PAGES[0]![1], { RunsPage: RunsPage as Page }]]);

/** Reloads the page, but not into the browser's own error page. */
const reloadIfReachable = () =>
  void call("GET /v1/console").then(
    () => location.reload(),
    (error: ApiError) => (error.status ? location.reload() : toast(error.message, "bad")),
  );

/** Shown where a page cannot be loaded, as after an update of the engine, or fails. */
const Broken = ({ reason }: { reason: string }) => (
  <main class="page">
    <Empty isPage icon="warning" title={t.common.broken}>
      <p class="sub">{reason}</p>
      <Button icon="replay" onClick={reloadIfReachable}>
        {t.common.reload}
      </Button>
    </Empty>
  </main>
);

function Content() {
  const [, setLoaded] = useState(0);
  const [isMissing, setMissing] = useState(false);
  const [failure, forget] = useErrorBoundary();
  const current = path.value;
  const match = PAGES.map(([pattern, area, page]) => ({ area, page, parts: matchPath(pattern, current) })).find(
    ({ parts }) => parts,
  );
  const area = match?.area;
  useEffect(() => {
    if (failure) forget();
    if (!area || loaded.has(area)) return;
    area().then(
      (pages) => {
        loaded.set(area, pages);
        setLoaded(loaded.size);
      },
      () => setMissing(true),
    );
  }, [area, current]);
  if (failure) return <Broken reason={String(failure)} />;
  if (!match) {
    return (
      <main class="main-inner">
        <Bar title={t.common.notFoundTitle} />
        <div class="page">
          <Empty isPage icon="search" title={t.common.notFound}>
            <ButtonLink to="/runs">{t.common.toRuns}</ButtonLink>
          </Empty>
        </div>
      </main>
    );
  }
  const Found = loaded.get(match.area)?.[match.page];
  if (Found) return <Found key={current} {...match.parts} />;
  return isMissing ? (
    <Broken reason={t.common.outdated} />
  ) : (
    <main class="page">
      <Skeleton rows={8} />
    </main>
  );
}

function Console() {
  if (session.value === "checking") return <Skeleton rows={0} />;
  return (
    <>
      {session.value === "choosing" ? (
        <OrganizationsPage />
      ) : session.value === "signed-in" ? (
        <Frame>
          <Content />
        </Frame>
      ) : (
        <SignIn />
      )}
      <Questions />
      <Toasts />
    </>
  );
}

function begin() {
  const isByCode = location.hash.includes("code=");
  start().catch((error: unknown) => {
    const isRefused = error instanceof ApiError && error.status === 401;
    // An engine that is away for a moment ends no session: the pages say so, and have a way to try again.
    if (session.value === "signed-in" && !isRefused) return void setTimeout(begin, RETRY_MS);
    if (error instanceof ApiError && (isByCode || !isRefused)) startError.value = error;
    session.value = "signed-out";
  });
}

/** Loads the other pages once the first one is there: they open at once then, also while the engine is away for a moment. */
function preload() {
  // A page that cannot be loaded now is loaded when it is opened.
  for (const area of [manage, run, create]) area().catch(() => undefined);
}

render(<Console />, document.body);
begin();
// The address of `sortie console`, opened in a tab that has this page, changes only the fragment.
addEventListener("hashchange", () => {
  if (location.hash.includes("code=")) location.reload();
});
setTimeout(preload, PRELOAD_MS);
