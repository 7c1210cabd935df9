import { randomUUID } from 'node:crypto';
import type { StartTask } from '../../../src/gateway/presenters/start-task.ts';
import { startTaskSchema } from '../../../src/gateway/presenters/start-task.ts';
import { saying, type Answer, type RestUser } from '../../support/rest-user.ts';

const retryMs = 300;
const patienceMs = 400_000;

/** Repeats a request that is answered "later" or whose connection breaks, at least `withinMs`. */
async function persistently(ask: () => Promise<Answer>, withinMs: number): Promise<Answer> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    let last: unknown;
    try {
      const answer = await ask();
      if (answer.status < 500) return answer;
      last = `${answer.status}: ${JSON.stringify(answer.body)}`;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline)
      throw new Error(`no answer within ${withinMs} ms`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

/**
 * A start under an id that the client chooses, so that asking again is safe; resolves once it is
 * READY or in ERROR. A scheduler that has missed that a volume is bound, because the API server was
 * away, places the pod up to 5 minutes later.
 */
export async function startPersistently(
  user: RestUser,
  text: string,
  withinMs = patienceMs,
): Promise<StartTask> {
  const body = { ...saying(text), conversation_id: randomUUID() };
  const { status, body: accepted } = await persistently(
    () => user.call('POST', '/api/v1/app-conversations', body),
    withinMs,
  );
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(accepted)}`);
  const { id } = startTaskSchema.parse(accepted);
  return user.over(id, withinMs);
}

/** Deletes a conversation, also while gateways come and go. */
export async function deletePersistently(user: RestUser, id: string): Promise<void> {
  const path = `/api/v1/app-conversations/${id}`;
  const { status, body } = await persistently(() => user.call('DELETE', path), patienceMs);
  // An answer may have been lost.
  if (status !== 200 && status !== 404) throw new Error(`${status}: ${JSON.stringify(body)}`);
}
