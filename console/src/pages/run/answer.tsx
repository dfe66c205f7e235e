// The first thing that a reader sees: what was asked, what came of it, and the files.
import type { Api } from "../../api/client.ts";
import { isFinal, type Artifact } from "../../model/events.ts";
import type { Fold } from "../../model/fold.ts";
import { prettyJson } from "../../model/json.ts";
import { visible } from "../../model/ansi.ts";
import { setQuery } from "../../router.ts";
import { runText } from "../../text/run.ts";
import { Button, CopyButton, Skeleton } from "../../ui/basics.tsx";
import { Code, Json } from "../../ui/code.tsx";
import { AgentText } from "../../ui/lazy.tsx";
import { ArtifactList } from "./files.tsx";

const texts = runText.answer;
const LONG_PROMPT = 600;

interface AnswerProps {
  run: Api.Run;
  fold: Fold;
  request: Api.RunRequest | undefined;
  output: string | undefined;
  artifacts: Artifact[];
  /** The answer is on its way. */
  isLoading: boolean;
}

const AgentOutput = ({ text }: { text: string }) =>
  prettyJson(text) === undefined ? <AgentText text={text} /> : <Code text={text} label={texts.answer} class="tall" />;

export function Answer({ run, fold, request, output, artifacts, isLoading }: AnswerProps) {
  const prompt = request?.prompt;
  const isWorking = !isFinal(run.status);
  return (
    <div class="page answer">
      <div class="asked">
        {prompt !== undefined && (
          <section class="card">
            <header>
              <h2>{texts.prompt}</h2>
              <span class="gap" />
              <CopyButton text={() => prompt} />
            </header>
            <div class={`text prompt ${prompt.length > LONG_PROMPT ? "long" : ""}`} tabIndex={0}>
              {visible(prompt)}
            </div>
          </section>
        )}
        {request?.input !== undefined && (
          <section class="card input-card">
            <header>
              <h2>{texts.input}</h2>
            </header>
            <div class="text">
              <Json value={request.input} label={texts.input} />
            </div>
          </section>
        )}
      </div>
      <div class="came">
        <section class="card">
          <header>
            <h2>{texts.answer}</h2>
            <span class="gap" />
            {output && <CopyButton text={() => output} />}
          </header>
          <div class="text">
            {isLoading ? (
              <Skeleton rows={6} />
            ) : output ? (
              <AgentOutput text={output} />
            ) : isWorking ? (
              <p class="sub">
                {fold.live?.text ? visible(fold.live.text.slice(-2000)) : texts.waiting}{" "}
                <Button kind="ghost" onClick={() => setQuery({ tab: "trace" })}>
                  {texts.toTrace}
                </Button>
              </p>
            ) : (
              <p class="dim">{run.zero_data_retention && run.output_available ? texts.unread : texts.none}</p>
            )}
          </div>
        </section>
        {artifacts.length > 0 && !isLoading && (
          <section class="card">
            <header>
              <h2>{texts.files}</h2>
            </header>
            <ArtifactList run={run.id} artifacts={artifacts} />
          </section>
        )}
      </div>
    </div>
  );
}
