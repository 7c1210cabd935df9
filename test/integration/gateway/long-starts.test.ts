import { ApiError } from '@conversation-operator/kube/errors';
import { newUuid } from '@conversation-operator/base/uuid';
import { conversationIdOfStartTask, startTaskIdOf } from '../../../src/resources/ids.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations/start-tasks';

interface Task {
  readonly id: string;
  readonly request: {
    readonly initial_message: { readonly content: readonly { readonly text: string }[] } | null;
  };
}

describe('start tasks of long messages', () => {
  let gateway: TestGateway;
  const ids: string[] = [];
  const textOf = (id: string) => `${id} ${'x'.repeat(200_000)}`;
  let reads: string[] = [];

  beforeAll(async () => {
    gateway = await TestGateway.start();
    for (let index = 0; index < 12; index++) {
      const id = newUuid(Date.now());
      ids.push(id);
      const content = [{ type: 'text' as const, text: textOf(id) }];
      await gateway.addConversation(id, {
        spec: { initialMessage: { role: 'user', content, run: true } },
      });
    }
  });
  beforeEach(() => {
    reads = [];
    gateway.client.fault = ({ verb, name }) => {
      if (verb === 'get') reads.push(name ?? '');
      return undefined;
    };
  });
  afterAll(() => gateway.stop());

  const textsIn = (tasks: readonly Task[]) =>
    tasks.map(({ request }) => request.initial_message?.content[0]?.text.slice(0, 32));

  it('say what was sent, in the order asked, though no cache has it', async () => {
    const asked = ids.map(startTaskIdOf);
    const { status, json } = await gateway.get(
      `${base}?${asked.map((id) => `ids=${id}`).join('&')}`,
    );
    expect([status, textsIn(json as readonly Task[])]).toEqual([200, ids]);
  });

  it('are whole in a page as well, which is sent task by task', async () => {
    const first = await gateway.get(`${base}/search?limit=5`);
    const page = first.json as {
      readonly items: readonly Task[];
      readonly next_page_id: string | null;
    };
    expect(textsIn(page.items)).toEqual(page.items.map(({ id }) => conversationIdOfStartTask(id)));
    expect([page.items.length, page.next_page_id === null]).toEqual([5, false]);
    const { json } = await gateway.get(`${base}/search?limit=100`);
    expect((json as { readonly items: readonly Task[] }).items).toHaveLength(12);
  });

  it('are one more read for a start, and none for a start that this replica has stored', async () => {
    const message = {
      initial_message: { role: 'user', content: [{ type: 'text', text: 'Say hello.' }] },
    };
    const { json: task } = await gateway.post('/api/v1/app-conversations', message);
    const { id } = task as Task;
    const { json } = await gateway.get(`${base}?ids=${id}`);
    expect((json as readonly Task[])[0]?.request.initial_message?.content).toEqual([
      { type: 'text', text: 'Say hello.' },
    ]);
    expect(reads).toEqual([]);
  });

  it('leave out what is gone by the time its text is read', async () => {
    const gone = ids[3] ?? '';
    gateway.client.fault = ({ verb, name }) =>
      verb === 'get' && name === gone ? new ApiError(404, { reason: 'NotFound' }) : undefined;
    const fresh = await gateway.replica();
    try {
      const { json } = await fresh.get(
        `${base}?${ids.map((id) => `ids=${startTaskIdOf(id)}`).join('&')}`,
      );
      expect(textsIn(json as readonly Task[])).toEqual(ids.filter((id) => id !== gone));
    } finally {
      await fresh.stop();
    }
  });

  it('end the connection where the API server fails after the first of them', async () => {
    const failing = ids[8] ?? '';
    gateway.client.fault = ({ verb, name }) =>
      verb === 'get' && name === failing ? new ApiError(503, {}) : undefined;
    const fresh = await gateway.replica();
    try {
      await expect(
        fresh.get(`${base}?${ids.map((id) => `ids=${startTaskIdOf(id)}`).join('&')}`),
      ).rejects.toThrow();
      gateway.client.fault = () => new ApiError(503, {});
      expect((await fresh.get(`${base}?ids=${startTaskIdOf(failing)}`)).status).toBe(503);
    } finally {
      await fresh.stop();
    }
  });
});
