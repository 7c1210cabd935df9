import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let host: GitServer;
let up: Installation;
beforeAll(async () => {
  host = await GitServer.start({
    repositories: { 'acme/shop': { branches: ['trunk'], head: 'trunk' } },
  });
  up = await Installation.start({
    env: { GIT_HOSTS: JSON.stringify({ forgejo: host.url }), GIT_CHECK: 'false' },
  });
});
afterAll(async () => {
  await up.stop();
  await host.stop();
});

const mistyped = { selected_repository: 'acme/shop', selected_branch: 'trnuk' };
const k = async (args: string, input?: string): Promise<string> =>
  (await kubectl(up.kubeconfig, args.split(' '), input)).stdout.trim();
const limit = (value: number) =>
  kubectl(up.kubeconfig, [
    'patch',
    'conversationquota',
    'default',
    '--type',
    'merge',
    '-p',
    JSON.stringify({ spec: { limit: value } }),
  ]);

it('gives slot, pod and volume back, and keeps the record with what went wrong', async () => {
  const { id: taskId } = await up.start('Hello.', mistyped);
  const task = await up.over(taskId);
  expect(task).toMatchObject({
    status: 'ERROR',
    error: expect.stringContaining('trnuk') as string,
  });
  await eventually(
    'nothing is left',
    async () => (await k('get sandboxes,pods,persistentvolumeclaims -o name')) === '',
  );
  await eventually(
    'its slot is free',
    async () => (await k('get conversationquota default -o jsonpath={.status.active}')) === '0',
  );

  const [conversation = ''] = (
    await k('get conversations -o jsonpath={.items[*].metadata.name}')
  ).split(' ');
  expect(await k('get conversations --no-headers')).toMatch(/ ERROR .* ERROR /);
  const { body } = await up.call('GET', `/api/v1/app-conversations?ids=${conversation}`);
  expect(body).toMatchObject([
    { sandbox_status: 'ERROR', sandbox_status_reason: 'branch-not-found', execution_status: null },
  ]);
  expect(await up.startTask(taskId)).toMatchObject({
    status: 'ERROR',
    steps: [{ name: 'clone', state: 'failed', exit_code: 242 }],
  });
  expect(await up.call('GET', `/api/v1/conversation/${conversation}/events/search`)).toMatchObject({
    status: 409,
    body: { code: expect.stringMatching(/^archive-(?:disabled|empty)$/) as unknown },
  });
  expect(
    await up.call('POST', `/api/v1/app-conversations/${conversation}/send-message`, {
      content: [{ type: 'text', text: 'Continue.' }],
    }),
  ).toMatchObject({ status: 409 });
  expect(await up.call('POST', `/api/v1/sandboxes/${task.sandbox_id ?? ''}/resume`)).toMatchObject({
    status: 404,
  });
});

it('never resumes automatically, whatever room there is', async () => {
  await limit(0);
  await limit(10);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  expect(await k('get sandboxes,pods -o name')).toBe('');
});

it('leaves a sandbox alone that another conversation works in', async () => {
  const works = await up.over((await up.start('Hello.')).id);
  const failed = await up.over(
    (await up.start('Hello.', { ...mistyped, sandbox_id: works.sandbox_id })).id,
  );
  expect(failed).toMatchObject({ status: 'ERROR', sandbox_id: works.sandbox_id });
  await up.reaches(works.app_conversation_id ?? '', {
    sandbox_status: 'RUNNING',
    execution_status: 'finished',
  });
  expect(await k('get sandboxes -o name')).toContain(works.sandbox_id);
});

it('a sandbox without a conversation that fails its first start stays as a record, without pod and volume', async () => {
  const template = (name: string, storage: object) => ({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'SandboxTemplate',
    metadata: { name },
    spec: {
      podTemplate: { spec: { containers: [{ name: 'agent', image: 'no/such:1' }] } },
      storage,
      startDeadline: '30s',
    },
  });
  for (const [name, retain] of [
    ['gone', false],
    ['kept', true],
  ] as const) {
    await k('apply -f -', JSON.stringify(template(name, { size: '1Gi', retain })));
    const { body } = await up.call('POST', `/api/v1/sandboxes?sandbox_spec_id=${name}`);
    const { id } = body as { readonly id: string };
    await eventually(
      'it has failed and given back what it may',
      async () =>
        (await k(
          `get sandbox ${id} -o jsonpath={.status.phase}/{.status.reason}/{.status.replicas}`,
        )) === 'ERROR/ImagePullFailed/0' &&
        (await k(`get pod,pvc ${id} --ignore-not-found -o name`)) ===
          (retain ? `persistentvolumeclaim/${id}` : ''),
    );
    expect(await up.call('POST', `/api/v1/sandboxes/${id}/resume`)).toMatchObject({ status: 409 });
  }
});
