import { api, messageOf } from './api.ts';
import { newKey, requestOf } from './draft.ts';
import { sandboxIdOf } from '../sentences/facts.ts';
import type { Row } from './row.ts';

/** Delay before the label of an accepted action disappears. */
const settleMs = 10_000;

async function perform(row: Row, label: string, request: () => Promise<unknown>): Promise<boolean> {
  const pending = { label };
  row.action.value = pending;
  try {
    await request();
  } catch (error) {
    const retry = () => void perform(row, label, request);
    row.action.value = { label, problem: messageOf(error), retry };
    return false;
  }
  setTimeout(() => {
    if (row.action.peek() === pending) row.action.value = undefined;
  }, settleMs);
  return true;
}

const sandboxPath = (row: Row): string =>
  `/api/v1/sandboxes/${encodeURIComponent(sandboxIdOf(row.facts) ?? '')}`;
const conversationPath = (row: Row): string => `/api/v1/app-conversations/${row.id}`;

export const pause = (row: Row, progress: string): Promise<boolean> =>
  perform(row, progress, () => api.post(`${sandboxPath(row)}/pause`, {}));

/** Stops the agent's run; the sandbox keeps running. */
export const interrupt = (row: Row, progress: string): Promise<boolean> =>
  perform(row, progress, () => api.post(`${conversationPath(row)}/interrupt`, {}));

export const resume = (row: Row, progress: string): Promise<boolean> =>
  perform(row, progress, () =>
    api.post(`${sandboxPath(row)}/resume`, {
      run: row.facts.conversation?.execution_status === 'paused',
    }),
  );

/** Reads the request of a failed start by REST, and starts a new conversation with it. */
export function startAgain(row: Row, progress: string): Promise<boolean> {
  // A retry after a lost response does not start a second conversation.
  const headers = { 'idempotency-key': newKey() };
  return perform(row, progress, async () => {
    const { conversation_id: _id, ...request } = await requestOf(row.facts.task?.id ?? '');
    await api.post('/api/v1/app-conversations', request, headers);
  });
}

export const rename = (row: Row, title: string): Promise<boolean> =>
  perform(row, 'Renaming', () => api.patch(conversationPath(row), { title }));

export const remove = (row: Row): Promise<boolean> =>
  perform(row, 'Deleting', () => api.delete(conversationPath(row)));
