import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { referenceAgentImage } from '../../src/commands/initial-objects.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { firstLine } from '../support/process-file.ts';

let up: Installation;
const k = (args: string, input?: string) => kubectl(up.kubeconfig, args.split(' '), input);

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  expect(await up.stop()).toBe(0);
});

async function apply(kind: string, name: string, spec: object): Promise<void> {
  const manifest = JSON.stringify({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind,
    metadata: { name },
    spec,
  });
  const { code, stderr } = await k('apply -f -', manifest);
  expect([code, stderr]).toEqual([0, '']);
}

const template = (
  name: string,
  { pod = {}, agent = {}, more = {} }: { pod?: object; agent?: object; more?: object },
) =>
  apply('SandboxTemplate', name, {
    podTemplate: {
      spec: { containers: [{ name: 'agent', image: referenceAgentImage, ...agent }], ...pod },
    },
    startDeadline: '4s',
    ...more,
  });

const field = async (what: string, path: string): Promise<string> =>
  (await k(`get ${what} -o jsonpath=${path}`)).stdout;
/** Reasons of the Events about an object, each with its type. */
const eventsOf = async (name: string): Promise<string[]> =>
  (
    await field(
      `events --field-selector involvedObject.name=${name}`,
      '{range.items[*]}{.type}/{.reason}{"\\n"}{end}',
    )
  )
    .trim()
    .split('\n');

describe('a start', () => {
  it('that is a happy one leaves no Warning Event', async () => {
    const tasks = await Promise.all(
      ['One.', 'Two.', 'Three.', 'Four.'].map((text) => up.start(text)),
    );
    for (const { id } of tasks) expect(await up.over(id)).toMatchObject({ status: 'READY' });
    const warnings = await field(
      'events --field-selector type=Warning',
      '{range.items[*]}{.involvedObject.kind}/{.reason}{"\\n"}{end}',
    );
    expect(warnings).toBe('');
    for (const { id } of tasks) {
      const { sandbox_id: sandbox } = await up.startTask(id);
      await up.call('DELETE', `/api/v1/app-conversations/${(sandbox ?? '').replace(/^sbx-/, '')}`);
    }
  });

  it.each([
    [
      'its template makes no pod',
      { agent: { ports: [{ containerPort: 0 }] } },
      'TemplateInvalid',
      /^The template makes no valid pod: spec\.containers\[0\]\.ports/,
    ],
    [
      'a Secret is missing',
      {
        agent: {
          env: [{ name: 'LLM_API_KEY', valueFrom: { secretKeyRef: { name: 'llm', key: 'key' } } }],
        },
      },
      'ContainerConfigError',
      /Secret, ConfigMap or key/,
    ],
    [
      'no node has what it wants',
      { pod: { nodeSelector: { gpu: 'yes' } } },
      'Unschedulable',
      /No node has room/,
    ],
    [
      'there is no such image',
      { agent: { image: 'no/such:1' } },
      'ImagePullFailed',
      /The image no\/such:1 can't be pulled/,
    ],
  ])(
    'ends in ERROR when %s: with a code, a text for its owner, and an Event on both',
    async (_sentence, parts, code, text) => {
      const name = code.toLowerCase();
      await template(name, parts);
      const { id: taskId } = await up.start('Hello.', { sandbox_spec_id: name });
      const task = await up.over(taskId);
      expect(task).toMatchObject({ status: 'ERROR', error: expect.stringMatching(text) as string });
      const sandbox = task.sandbox_id ?? '';
      const conversation = sandbox.replace(/^sbx-/, '');
      expect(await field(`conversation ${conversation}`, '{.status.start.errorCode}')).toBe(code);
      expect(
        await field(
          `conversation ${conversation}`,
          '{.status.sandboxStatus}/{.status.sandboxStatusReason}',
        ),
      ).toBe(`ERROR/${code}`);
      await eventually(
        'nothing is left',
        async () =>
          (await k(`get sandbox,pod,pvc ${sandbox} --ignore-not-found -o name`)).stdout === '',
      );
      await eventually('Events', async () => (await eventsOf(sandbox)).includes(`Warning/${code}`));
      await eventually('Events', async () =>
        (await eventsOf(conversation)).includes(`Warning/${code}`),
      );
      await up.call('DELETE', `/api/v1/app-conversations/${conversation}`);
    },
  );

  it('waits past its deadline for a node that an autoscaler has announced in an Event', async () => {
    await template('added', {
      pod: { nodeSelector: { gpu: 'yes' } },
      more: { startDeadline: '8s' },
    });
    const { id } = await up.start('Hello.', { sandbox_spec_id: 'added' });
    const sandbox = await eventually(
      'a sandbox',
      async () => (await up.startTask(id)).sandbox_id ?? undefined,
    );
    const uid = await eventually('its pod', async () => {
      const found = await field(`pod ${sandbox} --ignore-not-found`, '{.metadata.uid}');
      return found !== '' && found;
    });
    // Creates an Event as the cluster autoscaler writes one.
    const event = JSON.stringify({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${sandbox}.scale-up` },
      involvedObject: { kind: 'Pod', name: sandbox, namespace: 'default', uid },
      type: 'Normal',
      reason: 'TriggeredScaleUp',
      lastTimestamp: new Date().toISOString(),
      message: 'pod triggered scale-up: [{workers 1->2 (max: 9)}]',
    });
    expect((await k('create -f -', event)).stderr).toBe('');
    await eventually(
      'the wait',
      async () =>
        (await field(`sandbox ${sandbox}`, '{.status.phase}/{.status.reason}')) ===
        'STARTING/NodeBeingAdded',
    );
    expect(await field(`sandbox ${sandbox}`, '{.status.startingSinceTime}')).toBe('');
    expect((await up.startTask(id)).detail).toMatch(/autoscaler is adding one/);
  });

  it('says while it waits what keeps it, and no more once it does not', async () => {
    await template('nowhere', {
      pod: { nodeSelector: { gpu: 'yes' } },
      more: { startDeadline: '2m' },
    });
    const { id } = await up.start('Hello.', { sandbox_spec_id: 'nowhere' });
    const waiting = await eventually('what keeps it', async () => {
      const task = await up.startTask(id);
      return task.detail !== null && task;
    });
    expect(waiting).toMatchObject({
      status: 'WAITING_FOR_SANDBOX',
      error: null,
      detail: expect.stringMatching(/No node/) as string,
    });
    const conversation = (waiting.sandbox_id ?? '').replace(/^sbx-/, '');
    expect(
      await field(
        `conversation ${conversation}`,
        '{.status.start.errorCode}/{.status.sandboxStatusReason}',
      ),
    ).toBe('Unschedulable/Unschedulable');
    // The next pod is made from the corrected template.
    await template('nowhere', { more: { startDeadline: '2m' } });
    expect((await k(`delete pod ${waiting.sandbox_id ?? ''} --wait=false`)).code).toBe(0);
    expect(await up.over(id)).toMatchObject({ status: 'READY', error: null, detail: null });
    expect(
      await field(`conversation ${conversation}`, '{.status.start.errorCode}{.status.start.error}'),
    ).toBe('');
  });
});

it('a template that makes no pod says so before a start uses it, and no more once it is mended', async () => {
  await template('broken', { agent: { ports: [{ containerPort: 0 }] } });
  const valid =
    '{.status.conditions[?(@.type=="Valid")].status}/{.status.conditions[?(@.type=="Valid")].reason}';
  await eventually(
    'it is judged',
    async () => (await field('sbt broken', valid)) === 'False/TemplateInvalid',
  );
  await template('broken', {});
  await eventually(
    'it is judged anew',
    async () => (await field('sbt broken', valid)) === 'True/DryRunPassed',
  );
});

it('a pod that is deleted is replaced on the same volume, and its sandbox says why', async () => {
  const { sandbox, id } = await started('```sh\necho kept > kept.txt\n```');
  const before = [
    await field(`pvc ${sandbox}`, '{.metadata.uid}'),
    await field(`pod ${sandbox}`, '{.metadata.uid}'),
  ];
  await k(`delete pod ${sandbox}`);
  const after = await eventually('another pod', async () => {
    const uids = [
      await field(`pvc ${sandbox}`, '{.metadata.uid}'),
      await field(`pod ${sandbox}`, '{.metadata.uid}'),
    ];
    return uids[1] !== '' && uids[1] !== before[1] && uids;
  });
  expect(after[0]).toBe(before[0]);
  await up.reaches(id, { sandbox_status: 'RUNNING' });
  await eventually('Events', async () => (await eventsOf(sandbox)).includes('Warning/PodLost'));
  expect(
    readFileSync(
      join(up.dataDir, 'node', 'volumes', after[0] ?? '', 'project', 'kept.txt'),
      'utf8',
    ),
  ).toBe('kept\n');
});

it('a run whose pod is evicted is interrupted, resumes, and does not pass for finished', async () => {
  const script = '```sh\necho begun >> log; sleep 600\n```\n```sh\necho second >> log\n```';
  const task = await up.over((await up.start(script)).id);
  const id = task.app_conversation_id ?? '';
  const sandbox = task.sandbox_id ?? '';
  const conversation = `conversation ${sandbox.replace(/^sbx-/, '')}`;
  const log = join(
    up.dataDir,
    'node',
    'volumes',
    await field(`pvc ${sandbox}`, '{.metadata.uid}'),
    'project',
    'log',
  );
  await up.reaches(id, { execution_status: 'running' });
  await eventually('the first block to run', () => firstLine(log));
  const safeToEvict = '{.metadata.annotations.cluster-autoscaler\\.kubernetes\\.io/safe-to-evict}';
  expect(await field(`pod ${sandbox}`, safeToEvict)).toBe('false');
  const before = await field(`pod ${sandbox}`, '{.metadata.uid}');
  // Deletes as the eviction API does: with a signal, and the grace period of the pod.
  await k(`delete pod ${sandbox} --wait=false`);
  const seen = new Set<string>();
  await eventually('the end of the run', async () => {
    const now = await field(
      conversation,
      '{.status.executionStatus}/{.status.interruption.reason}/{.status.executionDetail}',
    );
    seen.add(now.split('/').slice(0, 2).join('/'));
    return /^error\/.*BlockLost: Code block 1 /.test(now);
  });
  expect([...seen].filter((status) => status.endsWith('/Disruption'))).not.toEqual([]);
  expect([...seen].filter((status) => status.startsWith('finished/'))).toEqual([]);
  expect(await field(`pod ${sandbox}`, '{.metadata.uid}')).not.toBe(before);
  expect(readFileSync(log, 'utf8')).toBe('begun\nsecond\n');
});

/** A start that has become READY, and has done what the message says. */
async function started(text: string, more: object = {}) {
  const task = await up.over((await up.start(text, more)).id);
  expect(task).toMatchObject({ status: 'READY', error: null });
  const id = task.app_conversation_id ?? '';
  await up.reaches(id, { execution_status: 'finished' });
  return { id, sandbox: task.sandbox_id ?? '' };
}

describe('a retained volume', () => {
  let claim: string;
  let volume: string;

  it('stays when its conversation is deleted, and says whose it is', async () => {
    await template('keep', {
      more: { storage: { size: '1Gi', retain: true }, startDeadline: '2m' },
    });
    const { id, sandbox } = await started('```sh\necho kept > kept.txt\n```', {
      sandbox_spec_id: 'keep',
    });
    claim = sandbox;
    volume = join(up.dataDir, 'node', 'volumes', await field(`pvc ${claim}`, '{.metadata.uid}'));
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
    await eventually(
      'the sandbox to go',
      async () => (await k(`get sandbox,pod ${claim} --ignore-not-found -o name`)).stdout === '',
    );
    const columns =
      'custom-columns=:.metadata.name,:.metadata.annotations.conversation-operator\\.dev/owner,:.metadata.annotations.conversation-operator\\.dev/conversation';
    const { stdout } = await k(
      `get pvc -l conversation-operator.dev/retained=true --no-headers -o ${columns}`,
    );
    expect(stdout.trim().split(/\s+/)).toEqual([claim, 'local', id]);
    expect(readFileSync(join(volume, 'project', 'kept.txt'), 'utf8')).toBe('kept\n');
  });

  it("is never given to another owner's sandbox of the same name", async () => {
    await apply('Sandbox', claim, { owner: 'mallory', templateName: 'keep' });
    await eventually(
      'it says why',
      async () =>
        (await field(`sandbox ${claim}`, '{.status.phase}/{.status.reason}')) ===
        'STARTING/VolumeNameTaken',
    );
    expect(await field('pods', '{.items[*].metadata.name}')).not.toContain(claim);
    await k(`delete sandbox ${claim}`);
    expect(await field(`pvc ${claim}`, '{.status.phase}')).toBe('Bound');
  });

  it("is taken up by its owner's", async () => {
    await apply('Sandbox', claim, { owner: 'local', templateName: 'keep' });
    await apply('Conversation', 'continued', {
      owner: 'local',
      sandboxName: claim,
      initialMessage: { content: [{ type: 'text', text: '```sh\ncp kept.txt again.txt\n```' }] },
    });
    expect(
      (
        await k(
          'wait --for=jsonpath={.status.executionStatus}=finished conv/continued --timeout=30s',
        )
      ).code,
    ).toBe(0);
    expect(readFileSync(join(volume, 'project', 'again.txt'), 'utf8')).toBe('kept\n');
    await eventually('Events', async () => (await eventsOf(claim)).includes('Normal/VolumeReused'));
    await k('delete conv continued');
    await k(`delete sandbox ${claim}`);
  });

  it('goes when its claim is deleted by hand', async () => {
    await eventually(
      'the pod to go',
      async () => (await k(`get pod ${claim} --ignore-not-found -o name`)).stdout === '',
    );
    expect((await k(`delete pvc ${claim}`)).code).toBe(0);
    await eventually('its files to go', () => !existsSync(volume));
  });
});
