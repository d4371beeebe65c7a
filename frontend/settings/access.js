// Keys and users, for the operator of a space.
import { apiPath, get, post, remove } from "../api.js";
import { kept } from "../kept.js";
import { chooseUser, keepKey, useSession } from "../session.js";
import { CopyButton } from "../ui/code_block.js";
import { ConfirmDialog, Dialog } from "../ui/dialog.js";
import { useLoaded, usePages } from "../ui/pages.js";
import { Problem } from "../ui/states.js";
import { count, shortTime } from "../ui/times.js";
import { explained } from "../ui/words.js";
import { html, useState } from "../view.js";

export function Access() {
  return html`<${Keys} /><${Users} />`;
}

function Keys() {
  const { space } = useSession();
  const keys = useLoaded((signal) => get(apiPath("keys"), {}, { signal }), []);
  const [making, setMaking] = useState(false);
  const [leaving, setLeaving] = useState(null);
  const listed = (keys.value?.keys ?? []).filter((key) => key.revoked === null);
  const revoke = async () => {
    await remove(apiPath("keys", leaving.key_id));
    keys.reload();
  };
  return html`<section class="card" aria-labelledby="keys">
    <div class="card-head"><h2 id="keys">API keys</h2><button class="small" onClick=${() => setMaking(true)}>New key</button></div>
    ${keys.error && html`<${Problem} error=${keys.error} onRetry=${keys.reload} />`}
    ${keys.value && !keys.value.closed && html`<p class="muted">There is no key: every program on this machine comes in. From the first key on, each needs one.</p>`}
    <ul class="plain-list" aria-label="API keys">
      ${listed.map((key) => html`<li key=${key.key_id} class="setting-row">
        <span><strong>${key.name ?? key.key_id}</strong> <span class="muted">${key.user_id ? `of ${key.user_id}` : `of the whole space ${key.space}`}, ${key.scopes.join(", ")}${key.expires ? `, until ${shortTime(key.expires)}` : ""}${key.last_used ? `; last used ${shortTime(key.last_used)}` : "; never used"}</span></span>
        <span class="row-actions"><button class="small" aria-label=${`Revoke the key ${key.name ?? key.key_id}`} onClick=${() => setLeaving(key)}>Revoke</button></span>
      </li>`)}
    </ul>
    ${making && html`<${NewKeyDialog} space=${space} isFirst=${!keys.value?.closed} onMade=${keys.reload} onClose=${() => setMaking(false)} />`}
    ${leaving && html`<${ConfirmDialog} title="Revoke the key?" confirm="Revoke" danger onConfirm=${revoke} onClose=${() => setLeaving(null)}>
      <p>Whoever uses “${leaving.name ?? leaving.key_id}” is refused from now on. If it is the key of this page, you are asked for another one.</p>
    <//>`}
  </section>`;
}

/** The first key closes the server, so it is an operator's, and this page uses it from then on. */
function NewKeyDialog({ space, isFirst, onMade, onClose }) {
  const [name, setName] = useState("");
  const [user, setUser] = useState("");
  const [made, setMade] = useState(null);
  const [problem, setProblem] = useState(null);
  const make = async (event) => {
    event.preventDefault();
    setProblem(null);
    try {
      const key = await post(apiPath("keys"), { space, name: name.trim() || null, user_id: isFirst ? null : user.trim() || null });
      if (isFirst && !kept("key")) keepKey(key.secret);
      setMade(key);
      onMade();
    } catch (error) {
      setProblem(explained(error));
    }
  };
  if (made) {
    return html`<${Dialog} title="The new key" onClose=${onClose}>
      <p>Copy it now: it is shown this once.</p>
      <div class="new-key"><label class="field"><span>The key</span><input readonly value=${made.secret} onFocus=${(event) => event.target.select()} /></label><${CopyButton} text=${made.secret} label="Copy the key" /></div>
      ${isFirst && html`<p class="muted">From now on every request needs a key. This browser keeps this one.</p>`}
      <footer><button class="primary" onClick=${onClose}>Done</button></footer>
    <//>`;
  }
  return html`<${Dialog} title="New key" onClose=${onClose}>
    <form onSubmit=${make}>
      <label class="field"><span>Name</span><input value=${name} maxlength="200" autofocus onInput=${(event) => setName(event.target.value)} /></label>
      ${isFirst
        ? html`<p class="muted">This is the first key. It is for the whole space ${space}, with every right, and closes the server to programs without a key.</p>`
        : html`<label class="field"><span>For one user; empty: for the whole space</span><input value=${user} maxlength="512" onInput=${(event) => setUser(event.target.value)} /></label>`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <footer>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary">Make the key</button>
      </footer>
    </form>
  <//>`;
}

function Users() {
  const { user } = useSession();
  const list = usePages(async (after, signal) => {
    const { users, next } = await get(apiPath("users"), { limit: 100, after }, { signal });
    return { items: users, next };
  }, []);
  const become = (name) => {
    chooseUser(name);
    location.reload();
  };
  return html`<section class="card" aria-labelledby="users">
    <h2 id="users">Users</h2>
    <p class="muted">Who has chats here. A user is there from their first message on; to give one access of their own, make a key for them.</p>
    ${list.error && html`<${Problem} error=${list.error} onRetry=${list.reload} />`}
    <ul class="plain-list" aria-label="Users">
      ${list.items.map((each) => html`<li key=${each.user_id} class="setting-row">
        <span><strong>${each.user_id}</strong> <span class="muted">${each.threads === 1 ? "1 chat" : `${count(each.threads)} chats`}, last used ${shortTime(each.last_used)}</span></span>
        <span class="row-actions">${each.user_id === user ? html`<span class="chip good">shown here</span>` : html`<button class="small" aria-label=${`Show the chats of ${each.user_id}`} onClick=${() => become(each.user_id)}>Show</button>`}</span>
      </li>`)}
    </ul>
    ${list.more && html`<button onClick=${list.loadMore}>More users</button>`}
  </section>`;
}
