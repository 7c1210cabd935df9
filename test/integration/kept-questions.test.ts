import { Installation } from '../support/installation.ts';

let up: Installation;

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  await up.stop();
});

const block = '```sh\necho approved >> result\n```';

/** A conversation whose agent asks whether it may run a command, in a paused sandbox. */
async function pausedWhileAsking() {
  const { id: start } = await up.start(block, { confirmation_policy: 'AlwaysConfirm' });
  const id = (await up.over(start)).app_conversation_id ?? '';
  const asks = { execution_status: 'waiting_for_confirmation' } as const;
  const { pending_approval: asked } = await up.reaches(id, asks);
  const sandbox = (await up.conversation(id)).sandbox_id ?? '';
  await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  const { pending_approval: kept } = await up.reaches(id, { ...asks, sandbox_status: 'PAUSED' });
  expect(kept?.id).toBe(asked?.id);
  return { id, sandbox, question: asked?.id ?? '' };
}

/** The text that the command has written so far. */
async function result(id: string): Promise<unknown> {
  const { workspace } = await up.conversation(id);
  const path = encodeURIComponent(`${workspace?.working_dir ?? ''}/result`);
  return (await up.call('GET', `/api/v1/app-conversations/${id}/file?file_path=${path}`)).body;
}

describe('a question of the reference agent whose sandbox was paused', () => {
  it('is answered during the pause, and the command runs', async () => {
    const { id, question } = await pausedWhileAsking();
    const path = `/api/v1/app-conversations/${id}/approvals/${question}`;
    const answer = { decision: 'approve' };
    expect(await up.call('POST', path, answer)).toMatchObject({ body: { state: 'recorded' } });
    await up.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    expect(await result(id)).toBe('approved\n');
    expect(await up.call('POST', path, answer)).toMatchObject({ body: { state: 'delivered' } });
  });

  it('still waits after a resume', async () => {
    const { id, sandbox, question } = await pausedWhileAsking();
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, { run: true });
    const { pending_approval: kept } = await up.reaches(id, {
      sandbox_status: 'RUNNING',
      execution_status: 'waiting_for_confirmation',
    });
    expect(kept?.id).toBe(question);
    expect(await result(id)).toBe('');
  });
});
