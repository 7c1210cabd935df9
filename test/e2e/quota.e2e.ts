import { eventually } from '../support/eventually.ts';
import { AgentWatch } from './support/agent-watch.ts';
import { apply } from './support/cluster.ts';
import { TestedInstallation } from './support/installation.ts';

const up = new TestedInstallation('quota');
const limit = 3;
const starts = 8;
const withinMs = 120_000;

const setLimit = (to: number) =>
  apply({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'ConversationQuota',
    metadata: { name: 'of-quota', namespace: up.facts.sandboxes },
    spec: {
      scope: 'Owner',
      owner: 'quota',
      limit: to,
      onExceeded: 'PauseOldest',
      autoResume: 'All',
    },
  });

describe('a quota of three', () => {
  let watch: AgentWatch;
  let ids: string[];
  beforeAll(async () => {
    await setLimit(limit);
    watch = await AgentWatch.start(up.facts.sandboxes, 'quota');
  });
  afterAll(async () => {
    watch.stop();
    await up.k('delete conversationquota of-quota --ignore-not-found');
    await Promise.all(ids.map((id) => up.call('DELETE', `/api/v1/app-conversations/${id}`)));
  });

  const records = () => Promise.all(ids.map((id) => up.conversation(id)));
  const paused = async () =>
    (await records()).filter(({ sandbox_status: status }) => status === 'PAUSED');

  it('lets eight starts through by pausing those before them', async () => {
    const tasks = await Promise.all(
      Array.from({ length: starts }, (_, index) =>
        up.start(`\`\`\`sh\necho ${index} >number.txt\n\`\`\``),
      ),
    );
    const over = await Promise.all(tasks.map(({ id }) => up.over(id, withinMs)));
    expect(over.map(({ status, error }) => [status, error])).toEqual(
      Array.from({ length: starts }, () => ['READY', null]),
    );
    ids = over.map((task) => task.app_conversation_id ?? '');
    await eventually(
      'five of them to be paused',
      async () => (await paused()).length === starts - limit,
      withinMs,
    );
    expect((await paused()).map((record) => record.sandbox_status_reason)).toEqual(
      Array.from({ length: starts - limit }, () => 'quota'),
    );
  });

  it('has never had more than three agents at once', () => {
    expect(watch.maxAtOnce).toBe(limit);
  });

  it('shows the use of the quota to kubectl', async () => {
    await eventually('the quota to count them', async () => {
      const counts = await up.k(
        'get conversationquota of-quota -o jsonpath={.status.active}/{.status.waiting}/{.status.paused}',
      );
      return counts === `${limit}/0/${starts - limit}`;
    });
    expect(await up.k('get events -o jsonpath={.items[*].message}')).toMatch(
      /Paused to make room for conversation [0-9a-f]{32} of the same owner; limit 3\./,
    );
  });

  it('resumes one automatically when another is deleted', async () => {
    const [running] = (await records()).filter(
      ({ sandbox_status: status }) => status === 'RUNNING',
    );
    await up.call('DELETE', `/api/v1/app-conversations/${running?.id ?? ''}`);
    ids = ids.filter((id) => id !== running?.id);
    await eventually(
      'four to be left in a pause',
      async () => (await paused()).length === starts - limit - 1,
      withinMs,
    );
    await eventually(
      'three to run',
      async () =>
        (await records()).filter((each) => each.sandbox_status === 'RUNNING').length === limit,
      withinMs,
    );
    expect(watch.maxAtOnce).toBe(limit);
  });

  it('brings all back when the limit is raised, but the one that its owner has paused', async () => {
    const [kept] = await paused();
    expect(
      (await up.call('POST', `/api/v1/sandboxes/${kept?.sandbox_id ?? ''}/pause`)).status,
    ).toBe(200);
    await setLimit(starts);
    const others = ids.filter((id) => id !== kept?.id);
    const back = await Promise.all(
      others.map((id) => up.reaches(id, { sandbox_status: 'RUNNING' }, withinMs)),
    );
    // One that made room before it came to its message does what that says now. Where the pause has
    // met the command itself, that is not run twice, and the owner says it again.
    const wasInterrupted = async (id: string) => {
      const query = 'search?kind__eq=AgentErrorEvent&limit=1';
      const { body } = await up.call('GET', `/api/v1/conversation/${id}/events/${query}`);
      return JSON.stringify(body).includes('interrupted');
    };
    const number = ({ id, sandbox_id: sandbox }: (typeof back)[number]) => {
      let said = false;
      return eventually(
        'its file',
        async () => {
          if (!said && (await wasInterrupted(id))) {
            said = true;
            const text = `\`\`\`sh\necho ${id} >number.txt\n\`\`\``;
            const message = { content: [{ type: 'text', text }], run: true };
            await up.call('POST', `/api/v1/app-conversations/${id}/send-message`, message);
          }
          return up.inSandbox(sandbox ?? '', 'cat /workspace/project/number.txt');
        },
        withinMs,
      );
    };
    const numbers = await Promise.all(back.map(number));
    expect(new Set(numbers).size).toBe(others.length);
    expect(await up.conversation(kept?.id ?? '')).toMatchObject({
      sandbox_status: 'PAUSED',
      sandbox_status_reason: 'user',
    });
  });
});
