// The page as a whole: who is asking, where we are, and the page that is shown there.
import { onKeyWanted } from "./api.js";
import { ConnectionBanner, useConnection } from "./connection.js";
import { KeyEntry } from "./key_entry.js";
import { go, useRoute } from "./router.js";
import { readSession, SessionProvider } from "./session.js";
import { Shell } from "./shell.js";
import { Loading, Problem } from "./ui/states.js";
import { Toasts } from "./ui/toast.js";
import { html, render, useCallback, useEffect, useErrorBoundary, useState } from "./view.js";

const PAGES = {
  chat: () => import("./chat/page.js"),
  memory: () => import("./memory/page.js"),
  prompt: () => import("./prompt/page.js"),
  health: () => import("./health/page.js"),
  settings: () => import("./settings/page.js"),
};

function App() {
  const [session, setSession] = useState(null);
  const [problem, setProblem] = useState(null);
  const [keyWanted, setKeyWanted] = useState(false);
  const begin = useCallback(async () => {
    setProblem(null);
    try {
      setSession(await readSession());
      setKeyWanted(false);
    } catch (error) {
      if (error.status !== 401) setProblem(error);
    }
  }, []);
  useConnection(useCallback((gone) => !gone && problem && begin(), [problem, begin]));
  useEffect(() => {
    onKeyWanted(() => setKeyWanted(true));
    begin();
  }, []);

  if (keyWanted) return html`<${KeyEntry} onEntered=${begin} />`;
  if (problem) return html`<main class="alone"><${Problem} error=${problem} onRetry=${begin} /></main>`;
  if (!session) return html`<main class="alone"><${Loading} label="Connecting" /></main>`;
  return html`<${SessionProvider} value=${session}><${Routed} session=${session} onSessionChanged=${begin} /><//>`;
}

function Routed({ session, onSessionChanged }) {
  const route = useRoute();
  const known = Object.hasOwn(PAGES, route.page);
  useEffect(() => {
    if (!known) go("chat", [], {}, { replace: true });
  }, [known]);
  if (!known) return null;
  return html`<${Shell} page=${route.page} onSessionChanged=${onSessionChanged}>
    <${LazyPage} key=${`${route.page} ${session.user}`} name=${route.page} route=${route} />
  <//>`;
}

function LazyPage({ name, route }) {
  const [Page, setPage] = useState(null);
  const [problem, setProblem] = useState(null);
  const [broken, mend] = useErrorBoundary();
  const load = useCallback(() => {
    setProblem(null);
    PAGES[name]().then((module) => setPage(() => module.default), setProblem);
  }, [name]);
  useEffect(load, [load]);
  useConnection(useCallback((gone) => !gone && problem && load(), [problem, load]));
  if (broken) return html`<${Problem} error=${broken} onRetry=${mend} />`;
  if (problem) return html`<${Problem} error=${problem} onRetry=${load} />`;
  return Page ? html`<${Page} route=${route} />` : html`<${Loading} />`;
}

render(html`<${ConnectionBanner} /><${App} /><${Toasts} />`, document.getElementById("app"));
