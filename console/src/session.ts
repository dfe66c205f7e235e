// Who is signed in, and the settings that the browser keeps.
import { effect, signal } from "@preact/signals";
import { call, onSignedOut, organization, type Api } from "./api/client.ts";

/** A setting that the browser keeps. */
const stored = <Value extends string>(name: string, fallback: Value) => {
  const setting = signal((localStorage.getItem(name) as Value | null) ?? fallback);
  effect(() => localStorage.setItem(name, setting.value));
  return setting;
};

/** `choosing` is a person of a hosted deployment at an address without an organization. */
type SessionState = "checking" | "signed-out" | "choosing" | "signed-in";

// Whether the browser had a session at this organization when it was here last: its page is then shown before the engine has
// confirmed it.
const hadSession = stored<"yes" | "no">(organization ? `sortie.session.${organization}` : "sortie.session", "no");
const hasCode = location.hash.includes("code=");

export const session = signal<SessionState>(hadSession.value === "yes" && !hasCode ? "signed-in" : "checking");
effect(() => void (session.value !== "checking" && (hadSession.value = session.value === "signed-in" ? "yes" : "no")));
/** Whether the session ended while the page was open. */
export const hasExpired = signal(false);
export const me = signal<Api.OrganizationInfo | undefined>(undefined);

/** What the deployment offers, once the engine has answered. */
export const features = () => me.value?.features;

export const isAdmin = () => me.value !== undefined && me.value.role !== "member";

onSignedOut(() => {
  hasExpired.value ||= session.value === "signed-in";
  session.value = "signed-out";
  me.value = undefined;
});

async function load() {
  // A hosted deployment says who is signed in only below an organization.
  if (!organization && (await call("GET /v1/console")).mode === "hosted") {
    session.value = "choosing";
    return;
  }
  me.value = await call("GET /v1/me");
  hasExpired.value = false;
  session.value = "signed-in";
}

/** Uses the code of the address, if it has one, else the session of the browser. */
export async function start() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    await signIn({ code });
  } else {
    await load();
  }
}

export async function signIn(credential: { key: string } | { code: string }) {
  await call("POST /v1/console/sessions", { body: credential });
  await load();
}

export async function signOut() {
  await call("DELETE /v1/console/sessions/current");
  session.value = "signed-out";
  me.value = undefined;
}

export type Theme = "system" | "light" | "dark";

export const theme = stored<Theme>("sortie.theme", "system");
/** Whether single keys are shortcuts. */
export const singleKeys = stored<"on" | "off">("sortie.keys", "on");

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
