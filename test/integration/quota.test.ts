import { AgentWatch } from '../support/agent-watch.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;
const k = (args: string, input?: string) => kubectl(up.kubeconfig, args.split(' '), input);
const setQuota = (spec: object) =>
  k(`patch conversationquota default --type merge -p ${JSON.stringify({ spec })}`);

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  await up.stop();
});

it('lets six starts through a limit of two, and never more than two agents at once', async () => {
  expect((await k('get conversationquota default -o jsonpath={.spec.limit}')).stdout).toBe('10');
  await setQuota({ limit: 2 });
  const watch = new AgentWatch(up.dataDir);
  const tasks = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      up.start(`Number ${index}:\n\`\`\`sh\necho ${index}\n\`\`\``),
    ),
  );
  const over = await Promise.all(tasks.map(({ id }) => up.over(id)));
  expect(over.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 'READY'));
  const ids = over.map((task) => task.app_conversation_id ?? '');
  await eventually('four of them paused', async () => {
    const records = await Promise.all(ids.map((id) => up.conversation(id)));
    return records.filter(({ sandbox_status: status }) => status === 'PAUSED').length === 4;
  });
  const paused = (await Promise.all(ids.map((id) => up.conversation(id)))).filter(
    ({ sandbox_status: status }) => status === 'PAUSED',
  );
  expect(paused.map((record) => record.sandbox_status_reason)).toEqual([
    'quota',
    'quota',
    'quota',
    'quota',
  ]);
  const { stdout: events } = await k('get events -o jsonpath={.items[*].message}');
  expect(events).toMatch(
    /Paused to make room for conversation [0-9a-f]{32} of the same owner; limit 2\./,
  );
  await eventually('the quota to count them', async () => {
    const { stdout } = await k(
      'get conversationquota default -o jsonpath={.status.active}/{.status.waiting}/{.status.paused}',
    );
    return stdout === '2/0/4';
  });

  expect(watch.stop().most).toBe(2);

  // One that its owner pauses besides stays so, whatever room there is.
  const [kept] = paused;
  expect((await up.call('POST', `/api/v1/sandboxes/${kept?.sandbox_id ?? ''}/pause`)).status).toBe(
    200,
  );
  await setQuota({ limit: 5 });
  const others = ids.filter((id) => id !== kept?.id);
  await Promise.all(others.map((id) => up.reaches(id, { sandbox_status: 'RUNNING' })));
  expect(await up.conversation(kept?.id ?? '')).toMatchObject({
    sandbox_status: 'PAUSED',
    sandbox_status_reason: 'user',
  });

  // A resume over the limit makes room like a start.
  await setQuota({ limit: 2 });
  await eventually('the surplus paused', () => watch.agents().length === 2);
  const still = new AgentWatch(up.dataDir);
  const [asleep] = (await Promise.all(others.map((id) => up.conversation(id)))).filter(
    ({ sandbox_status: status }) => status === 'PAUSED',
  );
  expect(
    (await up.call('POST', `/api/v1/sandboxes/${asleep?.sandbox_id ?? ''}/resume`)).status,
  ).toBe(200);
  await up.reaches(asleep?.id ?? '', { sandbox_status: 'RUNNING' });
  expect(still.stop().most).toBeLessThanOrEqual(2);

  // A sandbox that resumed automatically once, and was paused again with nothing to do, rests until
  // a person asks for it.
  await k('delete conversationquota default');
  const resting = (await Promise.all(others.map((id) => up.conversation(id)))).filter(
    ({ sandbox_status: status }) => status === 'PAUSED',
  );
  expect(resting.length).toBe(3);
  for (const { sandbox_id: sandbox } of resting)
    expect((await up.call('POST', `/api/v1/sandboxes/${sandbox ?? ''}/resume`)).status).toBe(200);
  await Promise.all(others.map((id) => up.reaches(id, { sandbox_status: 'RUNNING' })));
  expect(await up.conversation(kept?.id ?? '')).toMatchObject({
    sandbox_status: 'PAUSED',
    sandbox_status_reason: 'user',
  });
});
