// Sign-in by an API key. `sortie console` opens the page with a code instead.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, type Api } from "../api/client.ts";
import { hasExpired, signIn } from "../session.ts";
import { t } from "../text/en.ts";
import { Button, ErrorBox } from "../ui/basics.tsx";
import { TextField } from "../ui/form.tsx";
import { Icon } from "../ui/icon.tsx";

/** Failure of the sign-in that the address asked for. */
export const startError = signal<ApiError | undefined>(undefined);

export function SignIn() {
  const [key, setKey] = useState("");
  const [message, setMessage] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const [info, setInfo] = useState<Api.ConsoleInfo | "silent">();
  useEffect(() => {
    document.title = t.title(t.signIn.submit);
    call("GET /v1/console").then(setInfo, (error: ApiError) => setInfo(error.status === 0 ? "silent" : undefined));
  }, []);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!key.trim()) return setMessage(t.signIn.empty);
    setBusy(true);
    setMessage(undefined);
    startError.value = undefined;
    await signIn({ key: key.trim() }).catch((error: ApiError) => {
      if (error.status === 401 || error.status === 400) setMessage(error.message);
      else startError.value = error;
    });
    setBusy(false);
  };

  const provider = typeof info === "object" ? info.sign_in_url : undefined;
  // People of a hosted deployment sign in on its own pages.
  if (typeof info === "object" && info.mode === "hosted" && provider) {
    return (
      <main class="gate">
        <section class="card">
          <span class="mark large">
            <Icon name="mark" />
          </span>
          <div>
            <h1>{t.signIn.title}</h1>
            <p class="sub">{hasExpired.value ? t.signIn.expired : ""}</p>
          </div>
          <a class="btn primary wide-button" href={provider}>
            {t.signIn.submit}
          </a>
        </section>
      </main>
    );
  }
  const engine = info === "silent" ? t.signIn.noAnswer : info && t.signIn.engine(info.version, info.mode);
  return (
    <main class="gate">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <span class="mark large">
          <Icon name="mark" />
        </span>
        <div>
          <h1>{t.signIn.title}</h1>
          <p class="sub">{hasExpired.value ? t.signIn.expired : t.signIn.explain}</p>
        </div>
        {startError.value && <ErrorBox error={startError.value} />}
        <TextField
          label={t.signIn.key}
          type="password"
          value={key}
          error={message}
          autoFocus
          onText={setKey}
          hint={
            <>
              {t.signIn.hint.before}
              <code class="mono">{t.signIn.hint.command}</code>
              {t.signIn.hint.after}
            </>
          }
        />
        <Button type="submit" kind="primary" class="wide-button" disabled={isBusy}>
          {isBusy ? t.signIn.busy : t.signIn.submit}
        </Button>
        {provider && (
          <a class="btn wide-button" href={provider}>
            {t.signIn.provider}
          </a>
        )}
        {engine && (
          <p class={`engine dim ${info === "silent" ? "bad" : ""}`}>
            <span class="dot" />
            {engine}
          </p>
        )}
      </form>
    </main>
  );
}
