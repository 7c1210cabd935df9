import { eventually } from '../support/eventually.ts';
import { apply, crash, kubectl, restart, stateFolder } from './support/cluster.ts';
import { TestedInstallation } from './support/installation.ts';

const up = new TestedInstallation('loss');
const withinMs = 90_000;

describe('a sandbox whose pod is lost', () => {
  let id: string;
  let sandbox: string;
  let volume: string;
  beforeAll(async () => {
    const task = await up.over((await up.start('```sh\necho kept >kept.txt\n```')).id, withinMs);
    id = task.app_conversation_id ?? '';
    sandbox = task.sandbox_id ?? '';
    await up.reaches(id, { execution_status: 'finished' }, withinMs);
    volume = await up.k(`get pvc ${sandbox} -o jsonpath={.metadata.uid}`);
  });
  afterAll(() => up.call('DELETE', `/api/v1/app-conversations/${id}`));

  const podUid = () => up.k(`get pod ${sandbox} -o jsonpath={.metadata.uid} --ignore-not-found`);

  it.each([
    ['is deleted', () => up.k(`delete pod ${sandbox} --wait=false`)],
    [
      'is evicted',
      () =>
        kubectl(
          `create --raw /api/v1/namespaces/${up.facts.sandboxes}/pods/${sandbox}/eviction -f -`,
          JSON.stringify({
            apiVersion: 'policy/v1',
            kind: 'Eviction',
            metadata: { name: sandbox, namespace: up.facts.sandboxes },
          }),
        ),
    ],
    ['is deleted by force', () => up.k(`delete pod ${sandbox} --force --grace-period=0`)],
  ])(
    'gets another one on the same volume when it %s',
    async (_sentence, lose) => {
      const before = await podUid();
      expect(before).not.toBe('');
      await lose();
      await eventually('another pod', async () => ![before, ''].includes(await podUid()), withinMs);
      await up.reaches(id, { sandbox_status: 'RUNNING' }, withinMs);
      expect(await up.k(`get pvc ${sandbox} -o jsonpath={.metadata.uid}`)).toBe(volume);
      expect(
        await eventually('its container to answer', () =>
          up.inSandbox(sandbox, 'cat /workspace/project/kept.txt'),
        ),
      ).toBe('kept');
    },
    200_000,
  );

  it('resumes the run that was interrupted', async () => {
    const script = '```sh\ntouch begun.txt; sleep 600\n```\n```sh\necho after >after.txt\n```';
    const task = await up.over((await up.start(script)).id, withinMs);
    const other = { id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
    await up.reaches(other.id, { execution_status: 'running' }, withinMs);
    const inProject = (command: string) =>
      up.inSandbox(other.sandbox, `cd /workspace/project && ${command}`);
    await eventually('the run to have begun', () => inProject('ls begun.txt'), withinMs);
    const before = await up.k(`get pod ${other.sandbox} -o jsonpath={.metadata.uid}`);
    await up.k(`delete pod ${other.sandbox} --force --grace-period=0`);
    await eventually(
      'another pod',
      async () => {
        const uid = await up.k(
          `get pod ${other.sandbox} -o jsonpath={.metadata.uid} --ignore-not-found`,
        );
        return ![before, ''].includes(uid);
      },
      withinMs,
    );
    // Only a run that continues gets this far: the container that was deleted by force may run for
    // two seconds more, but its block does not end.
    await eventually(
      'what it does after that',
      async () => (await inProject('cat after.txt')) === 'after',
      withinMs,
    );
    // The lost block is not repeated, so its work is not done.
    await up.reaches(other.id, { execution_status: 'error' }, withinMs);
    await up.call('DELETE', `/api/v1/app-conversations/${other.id}`);
  }, 200_000);
});

// A node that is lost can be had only where its kubelet can be stopped.
(stateFolder === undefined ? describe.skip : describe)('a sandbox whose node is lost', () => {
  afterAll(restart, 200_000);

  it('says so, and gets another pod on the same volume when the node is back', async () => {
    await apply({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'SandboxTemplate',
      metadata: { name: 'impatient', namespace: up.facts.sandboxes },
      spec: (JSON.parse(await up.k('get sandboxtemplate default -o json')) as { spec: object })
        .spec,
    });
    // By default a node may be away for five minutes before its pods are given up.
    const tolerations = ['not-ready', 'unreachable'].map((name) => ({
      key: `node.kubernetes.io/${name}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: 1,
    }));
    await up.k([
      'patch',
      'sandboxtemplate',
      'impatient',
      '--type=merge',
      '-p',
      JSON.stringify({ spec: { podTemplate: { spec: { tolerations } } } }),
    ]);
    const task = await up.over(
      (await up.start('```sh\necho kept >kept.txt\n```', { sandbox_spec_id: 'impatient' })).id,
      withinMs,
    );
    const id = task.app_conversation_id ?? '';
    const sandbox = task.sandbox_id ?? '';
    await up.reaches(id, { execution_status: 'finished' }, withinMs);
    const before = await up.k(`get pod,pvc ${sandbox} -o jsonpath={.items[*].metadata.uid}`);

    await crash('kubelet');
    // After 80 s (50 s by default) the control plane gives the node up, and with it the gateways,
    // which are on it too.
    const reason = () => up.k(`get sandbox ${sandbox} -o jsonpath={.status.reason}`);
    await eventually(
      'the sandbox to say why',
      async () => (await reason()) === 'NodeLost',
      180_000,
    );
    // The pod still exists, with a deletion that no kubelet carries out.
    const going = `get pod ${sandbox} -o jsonpath={.metadata.uid}/{.metadata.deletionTimestamp}`;
    const [pod, volume] = before.split(' ');
    await eventually(
      'its pod to be given up',
      async () => new RegExp(`^${pod ?? ''}/2`).test(await up.k(going)),
      withinMs,
    );
    await restart();
    await eventually(
      'it to run again',
      async () => (await up.k(`get sandbox ${sandbox} -o jsonpath={.status.phase}`)) === 'RUNNING',
      withinMs,
    );
    const [newPod, sameVolume] = (
      await up.k(`get pod,pvc ${sandbox} -o jsonpath={.items[*].metadata.uid}`)
    ).split(' ');
    expect([newPod === pod, sameVolume]).toEqual([false, volume]);
    expect(
      await eventually('its container to answer', () =>
        up.inSandbox(sandbox, 'cat /workspace/project/kept.txt'),
      ),
    ).toBe('kept');
    await eventually(
      'the gateway to be back',
      async () => (await up.call('DELETE', `/api/v1/app-conversations/${id}`)).status === 200,
      withinMs,
    );
    await up.k('delete sandboxtemplate impatient');
  }, 400_000);
});
