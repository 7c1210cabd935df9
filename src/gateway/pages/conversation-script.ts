/**
 * Runs in the browser. The key is held in a variable alone: other pages of this origin, those of
 * agents among them, can read what is in the browser's storage. Text goes into the page as text,
 * never as markup.
 */
export const conversationScript = `
'use strict';
const [, prefix, id] = /^(.*)\\/conversations\\/([^\\/]+)\\/?$/.exec(location.pathname) ?? [];
const api = location.origin + prefix + '/api/v1/app-conversations';
const element = (name) => document.getElementById(name);
let key = '';
let timer;

async function read(path) {
  const options = { headers: { Authorization: 'Bearer ' + key }, cache: 'no-store', credentials: 'omit' };
  const response = await fetch(api + path, options);
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.detail), { passes: response.status === 429 || response.status >= 500 });
  return body;
}

async function state() {
  const [[task], [direct]] = await Promise.all([read('/start-tasks?ids=' + id), read('?ids=' + id)]);
  if (task === undefined || task.app_conversation_id === null) return { task, conversation: direct };
  const [conversation] = await read('?ids=' + task.app_conversation_id);
  return { task, conversation };
}

const join = (...parts) => parts.filter((part) => part !== null && part !== undefined && part !== '').join(', ');

function factsOf({ task, conversation }) {
  const asked = task?.request;
  return {
    Start: join(task?.status, task?.detail),
    Sandbox: join(conversation?.sandbox_status, conversation?.sandbox_status_reason),
    Agent: join(conversation?.execution_status, conversation?.execution_status_detail),
    Repository: join(conversation?.selected_repository ?? asked?.selected_repository, conversation?.selected_branch ?? asked?.selected_branch),
    Model: join(conversation?.llm_model ?? asked?.llm_model),
    Conversation: join(conversation?.id),
    Created: join(conversation?.created_at ?? task?.created_at),
    Updated: join(conversation?.updated_at ?? task?.updated_at),
  };
}

function show(found) {
  element('title').textContent = found.conversation?.title ?? found.task?.request.title ?? 'Conversation';
  const rows = Object.entries(factsOf(found)).filter(([, text]) => text !== '');
  element('facts').replaceChildren(
    ...rows.flatMap(([name, text]) => {
      const [term, detail] = [document.createElement('dt'), document.createElement('dd')];
      term.textContent = name;
      detail.textContent = text;
      return [term, detail];
    }),
  );
}

async function poll() {
  try {
    const found = await state();
    const isKnown = found.task !== undefined || found.conversation !== undefined;
    show(found);
    element('notice').textContent = isKnown ? '' : 'There is no such conversation among those of this key.';
    if (isKnown) timer = setTimeout(poll, 3000);
  } catch (error) {
    element('notice').textContent = error.message;
    // After an error that passes, the page keeps its content and polls again. A refusal is final
    // for this key.
    if (error.passes !== false) timer = setTimeout(poll, 5000);
    else show({});
  }
}

element('open').addEventListener('submit', (event) => {
  event.preventDefault();
  key = element('key').value.trim();
  element('key').value = '';
  clearTimeout(timer);
  void poll();
});
`;
