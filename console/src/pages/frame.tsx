// The frame: sidebar, tabs of the phone, bar with the page's actions, palette and shortcuts.
import { signal } from "@preact/signals";
import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, organization } from "../api/client.ts";
import { href, navigate, path } from "../router.ts";
import { isAdmin, me, signOut, singleKeys, theme, type Theme } from "../session.ts";
import { t } from "../text/en.ts";
import { Dialog, Menu, type MenuItem } from "../ui/dialog.tsx";
import { Icon, type IconName } from "../ui/icon.tsx";
import { useKeys } from "../ui/keys.ts";
import { toast } from "../ui/toast.tsx";
import { Palette } from "./palette.tsx";

export interface Place {
  to: string;
  icon: IconName;
  name: string;
}

const work: Place[] = [
  { to: "/runs", icon: "runs", name: t.nav.runs },
  { to: "/workflows", icon: "workflow", name: t.nav.workflows },
  { to: "/schedules", icon: "clock", name: t.nav.schedules },
  { to: "/connections", icon: "plug", name: t.nav.connections },
  { to: "/deliveries", icon: "send", name: t.nav.deliveries },
];
const spend: Place[] = [
  { to: "/usage", icon: "usage", name: t.nav.usage },
  { to: "/budgets", icon: "budget", name: t.nav.budgets },
  { to: "/models", icon: "chip", name: t.nav.models },
];
const administration: Place[] = [
  ...(organization ? [{ to: "/members", icon: "people" as const, name: t.nav.members }] : []),
  { to: "/keys", icon: "key", name: t.nav.keys },
  ...(organization ? [{ to: "/credits", icon: "budget" as const, name: t.nav.credits }] : []),
];

const groups = (): [string, Place[]][] => [
  ["", work],
  [t.nav.spend, spend],
  ...(isAdmin() ? [[t.nav.administration, administration] as [string, Place[]]] : []),
];

export const places = () => groups().flatMap(([, all]) => all);

/** Number of runs in flight, where a page knows it. */
export const inFlight = signal<number | undefined>(undefined);

const isCurrent = ({ to }: Place) =>
  (path.value === to || path.value.startsWith(`${to}/`)) && path.value !== "/runs/new";

const NavLink = ({ place }: { place: Place }) => (
  <a href={href(place.to)} aria-current={isCurrent(place) ? "page" : undefined}>
    <Icon name={place.icon} />
    {place.name}
    {place.to === "/runs" && inFlight.value ? (
      <span class="n live">
        <span class="dot pulse" />
        {inFlight.value}
      </span>
    ) : null}
  </a>
);

const THEMES: [Theme, IconName][] = [
  ["system", "system"],
  ["light", "light"],
  ["dark", "dark"],
];

function accountItems(showShortcuts: () => void): (MenuItem | string)[] {
  return [
    t.account.theme,
    ...THEMES.map(([name, icon]) => ({
      label: t.account.themes[name],
      icon,
      isChecked: theme.value === name,
      act: () => void (theme.value = name),
    })),
    t.nav.more,
    ...(organization
      ? [{ label: t.organizations.switch, icon: "node" as const, act: () => location.assign("/console/") }]
      : []),
    {
      label: t.account.singleKeys,
      isChecked: singleKeys.value === "on",
      act: () => void (singleKeys.value = singleKeys.value === "on" ? "off" : "on"),
    },
    { label: t.account.shortcuts, icon: "note", act: showShortcuts },
    { label: t.account.licences, icon: "file", act: () => void window.open(new URL("licences.txt", import.meta.url)) },
    {
      label: t.account.signOut,
      icon: "out",
      act: () => void signOut().catch((error: ApiError) => toast(error.message, "bad")),
    },
  ];
}

/** Moves the focus to the content of a page that was opened by a link, for readers of a screen and for the keyboard. */
function useFocusOnPages() {
  const current = path.value;
  const before = useRef(current);
  useEffect(() => {
    if (before.current !== current) document.getElementById("content")?.focus({ preventScroll: true });
    before.current = current;
  }, [current]);
}

export function Frame({ children }: { children: ComponentChildren }) {
  const [isSearching, setSearching] = useState(false);
  const [hasShortcuts, setShortcuts] = useState(false);
  useKeys({ "mod+k": () => setSearching(true), n: () => navigate("/runs/new"), "?": () => setShortcuts(true) });
  useFocusOnPages();
  const account = accountItems(() => setShortcuts(true));
  const { organization_name: name, key_name: key, version } = me.value ?? {};
  const phone: Place[] = [work[0]!, { to: "/runs/new", icon: "plus", name: t.nav.new }, work[1]!, work[2]!];
  return (
    <div class="app">
      <a class="skip btn" href="#content">
        {t.nav.skip}
      </a>
      <aside class="side" aria-label={t.nav.sidebar}>
        <a class="brand" href={href("/runs")}>
          <span class="mark">
            <Icon name="mark" />
          </span>
          Sortie
        </a>
        <button type="button" class="search" onClick={() => setSearching(true)}>
          <Icon name="search" />
          <span>{t.nav.search}</span>
          <kbd aria-hidden="true">⌘K</kbd>
        </button>
        <nav class="nav" aria-label={t.nav.label}>
          {groups().map(([name, all]) => (
            <Fragment key={name}>
              {name && <h2>{name}</h2>}
              {all.map((place) => (
                <NavLink key={place.to} place={place} />
              ))}
            </Fragment>
          ))}
        </nav>
        <div class="foot">
          <span class="t" title={key}>
            {name ?? key ?? me.value?.role}
          </span>
          {version && <span class="mono">{version}</span>}
          <Menu label={t.account.menu} items={account} above>
            <Icon name="more" />
          </Menu>
        </div>
      </aside>
      <div class="main" id="content" tabIndex={-1}>
        {children}
      </div>
      <nav class="phonebar" aria-label={t.nav.sections}>
        {phone.map((place) => (
          <a
            key={place.to}
            href={href(place.to)}
            aria-current={isCurrent(place) || path.value === place.to ? "page" : undefined}
          >
            <Icon name={place.icon} />
            {place.name}
          </a>
        ))}
        <Menu
          label={t.nav.more}
          class="phone-more"
          above
          items={[
            ...places()
              .slice(3)
              .map(({ to, icon, name }) => ({ label: name, icon, act: () => navigate(to) })),
            ...account,
          ]}
        >
          <Icon name="menu" />
          {t.nav.more}
        </Menu>
      </nav>
      {isSearching && <Palette onClose={() => setSearching(false)} />}
      {hasShortcuts && <Shortcuts onClose={() => setShortcuts(false)} />}
    </div>
  );
}

/** The bar on top of a page: where it is, and what can be done. */
export function Bar({ title, parent, children }: { title: string; parent?: Place; children?: ComponentChildren }) {
  useEffect(() => void (document.title = t.title(title)), [title]);
  return (
    <div class="bar">
      <nav class="crumb" aria-label={t.nav.breadcrumb}>
        {parent && (
          <a href={href(parent.to)} class="wide">
            {parent.name}
          </a>
        )}
        {parent && (
          <span class="wide">
            <Icon name="right" />
          </span>
        )}
        <b aria-current="page">{title}</b>
      </nav>
      <span class="gap" />
      {children}
    </div>
  );
}

export const runsPlace = work[0]!;
export const workflowsPlace = work[1]!;

function Shortcuts({ onClose }: { onClose: () => void }) {
  const { list, everywhere, inRun, inList, off, title } = t.shortcuts;
  const parts: [string, [string, string][]][] = [
    [everywhere, list.everywhere],
    [inList, list.list],
    [inRun, list.run],
  ];
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="form shortcuts">
        {singleKeys.value === "off" && <p class="sub">{off}</p>}
        {parts.map(([name, keys]) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {keys.map(([key, meaning]) => (
                <div key={key}>
                  <dt>
                    {key.split(" ").map((one) => (
                      <kbd key={one}>{one}</kbd>
                    ))}
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
