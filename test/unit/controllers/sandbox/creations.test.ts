import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { ApiError } from '@conversation-operator/kube/errors';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import type { AcpSettings } from '../../../../src/resources/acp-settings.ts';
import { ClaimBindings } from '../../../../src/controllers/sandbox/claim.ts';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import {
  aClaim,
  aRunningPod,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  later,
} from '../../../support/builders.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

const quotaFull = new ApiError(403, {
  reason: 'Forbidden',
  message:
    'pods "sbx-1" is forbidden: exceeded quota: team-a, requested: pods=1, used: pods=5, limited: pods=5',
});
const quotaTooSmall = new ApiError(403, {
  reason: 'Forbidden',
  message:
    'pods "sbx-1" is forbidden: exceeded quota: team-a, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1',
});
const invalid = new ApiError(422, {
  reason: 'Invalid',
  message: 'Pod "sbx-1" is invalid: spec.containers[0].image: Required value',
  details: { causes: [{ field: 'spec.containers[0].image', message: 'Required value' }] },
});

/** A sandbox's controller over a cluster that says what the test wants. */
class Bench {
  readonly scene: SandboxScene;
  readonly log = recordingLogger();
  readonly agent = new OpenHandsClient({});

  constructor(sandbox: Sandbox) {
    this.scene = new SandboxScene({ agent: this.agent, logger: this.log.logger });
    this.client.put(sandboxes, sandbox);
  }

  get client() {
    return this.scene.client;
  }

  get clock() {
    return this.scene.clock;
  }

  get events() {
    return this.scene.events;
  }

  async reconcile(): Promise<number | undefined> {
    return (await this.scene.reconcile()).requeueAfterMs;
  }

  refuse(plural: string, error: Error | undefined): void {
    this.client.fault = (call) =>
      call.verb === 'create' && call.plural === plural ? error : undefined;
  }

  get status() {
    return this.client.get(sandboxes, 'default', 'sbx-1').then(({ status }) => status);
  }

  get version() {
    return this.client
      .get(sandboxes, 'default', 'sbx-1')
      .then(({ metadata }) => metadata.resourceVersion);
  }

  get created() {
    return Promise.all([this.client.list(persistentVolumeClaims), this.client.list(pods)]).then(
      (lists) => lists.map(({ items }) => items.length),
    );
  }
}

let bench: Bench;
const begin = (sandbox: Sandbox = aSandbox({ status: { conditions: [admitted] } })) =>
  (bench = new Bench(sandbox));
afterEach(() => bench.agent.close());

it("reports a refusal at once, with a message for its owner; the server's own is in the Event and the log alone", async () => {
  begin().refuse('pods', quotaFull);
  await bench.reconcile();
  const message =
    "The namespace's resource quota team-a has no room for the pod: pods. The sandbox waits until others of the namespace end, or an administrator raises the quota.";
  expect(await bench.status).toMatchObject({
    phase: 'STARTING',
    reason: 'ResourceQuotaExceeded',
    message,
  });
  expect(bench.events).toEqual([
    {
      type: 'Normal',
      reason: 'ResourceQuotaExceeded',
      message: `${message} The API server says: ${quotaFull.message}`,
    },
  ]);
  expect(bench.log.lines.map(({ message: line, fields }) => [line, fields['code']])).toContainEqual(
    ['creation was refused', 'ResourceQuotaExceeded'],
  );
});

describe('the pod of a new claim', () => {
  /** Reconciles as long as the controller asks for that within `ms`, with unchanged caches. */
  const wait = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0;) {
      const { requeueAfterMs = left } = await bench.scene.reconcileBehind();
      const stepMs = Math.min(left, Math.max(1, requeueAfterMs));
      await bench.clock.advance(stepMs);
      left -= stepMs;
    }
    await bench.scene.reconcileBehind();
  };
  /** Begins, and returns when the controller asks to be called again. */
  const createClaim = async (): Promise<number | undefined> => {
    begin();
    await bench.scene.observe();
    return (await bench.scene.reconcileBehind()).requeueAfterMs;
  };

  it('is created once a watch has shown that the claim is bound, so that no scheduler reports its absence', async () => {
    expect(await createClaim()).toBe(200);
    expect(await bench.created).toEqual([1, 0]);
    const [claim] = (await bench.client.list(persistentVolumeClaims)).items;
    if (claim !== undefined)
      bench.client.put(persistentVolumeClaims, { ...claim, status: { phase: 'Bound' } });
    await bench.scene.reconcile();
    expect(await bench.created).toEqual([1, 1]);
  });

  it('is created after a second where the claim waits for its pod', async () => {
    await createClaim();
    await bench.scene.observe();
    await wait(950);
    expect(await bench.created).toEqual([1, 0]);
    await wait(100);
    expect(await bench.created).toEqual([1, 1]);
  });
});

it('a new claim of a sandbox that runs does not interrupt the sandbox', async () => {
  const sandbox = aSandbox({
    status: {
      conditions: [admitted, condition('Ready', 'True', 'Running')],
      observedGeneration: 1,
      replicas: 1,
      agentEpoch: 1,
      agentPort: 8000,
      containerID: 'process://1',
      lastContainerID: 'process://1',
      podIP: '127.70.0.1',
      masterKeyId: sceneKeys.currentKeyId,
      activeSinceTime: later(-60_000),
    },
  });
  begin(sandbox);
  bench.client.put(pods, aRunningPod(sandbox));
  await bench.reconcile();
  expect(await bench.created).toEqual([1, 1]);
  expect(await bench.status).toMatchObject({ phase: 'RUNNING', containerID: 'process://1' });
});

it('no more pods wait for claims of a storage class that binds none before its pod is there', async () => {
  const { clock } = begin();
  const bindings = new ClaimBindings({ clock });
  const claimOf = (uid: string, storageClassName: string) => {
    const claim = aClaim(aSandbox());
    return { ...claim, metadata: { ...claim.metadata, uid }, spec: { storageClassName } };
  };
  expect(bindings.waitMs(claimOf('a', 'late'))).toBe(1_000);
  await clock.advance(1_000);
  expect(bindings.waitMs(claimOf('a', 'late'))).toBe(0);
  expect(bindings.waitMs(claimOf('b', 'late'))).toBe(0);
  expect(bindings.waitMs(claimOf('c', 'other'))).toBe(1_000);
});

it('asks again, reports it no second time, and continues by itself when the cause is gone', async () => {
  begin().refuse('pods', quotaFull);
  expect(await bench.reconcile()).toBe(1_000);
  await bench.clock.advance(20_000);
  expect(await bench.reconcile()).toBe(5_000);
  expect(bench.events).toHaveLength(1);
  bench.refuse('pods', undefined);
  await bench.reconcile();
  expect(await bench.created).toEqual([1, 1]);
  expect(await bench.status).toMatchObject({ phase: 'STARTING', reason: 'WaitingForPod' });
});

it('gives up at the start deadline, with the same code', async () => {
  begin().refuse(
    'persistentvolumeclaims',
    new ApiError(403, { message: 'persistentvolumeclaims "sbx-1" is forbidden: no' }),
  );
  await bench.reconcile();
  await bench.clock.advance(120_000);
  await bench.reconcile();
  expect(await bench.status).toMatchObject({
    phase: 'ERROR',
    reason: 'CreationForbidden',
    message: 'The cluster refuses the volume.',
  });
});

it('gives up at once where the template makes no pod, and frees its slot', async () => {
  begin().refuse('pods', invalid);
  expect(await bench.reconcile()).toBe(0);
  expect(await bench.status).toMatchObject({
    phase: 'ERROR',
    reason: 'TemplateInvalid',
    replicas: 1,
  });
  await bench.reconcile();
  expect(await bench.status).toMatchObject({
    phase: 'ERROR',
    reason: 'TemplateInvalid',
    replicas: 0,
  });
});

it('does not give up files for a template that was broken meanwhile', async () => {
  begin(aSandbox({ status: { conditions: [admitted], lastContainerID: 'process://1' } })).refuse(
    'pods',
    invalid,
  );
  await bench.reconcile();
  expect(await bench.status).toMatchObject({ phase: 'STARTING', reason: 'TemplateInvalid' });
});

it('comes to no deadline because a clock jumps ahead, or is that of another leader', async () => {
  begin().refuse('pods', quotaTooSmall);
  await bench.reconcile();
  bench.clock.jumpWallClock(3_600_000);
  await bench.reconcile();
  expect(await bench.status).toMatchObject({ phase: 'STARTING', reason: 'ResourceQuotaTooSmall' });
  await bench.clock.advance(120_000);
  await bench.reconcile();
  expect(await bench.status).toMatchObject({ phase: 'ERROR', reason: 'ResourceQuotaTooSmall' });
});

describe('a wait for room in a resource quota', () => {
  /** Lets time pass, and reconciles as often as the controller asks for it. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0;) {
      const stepMs = Math.min(left, Math.max(1, (await bench.reconcile()) ?? left));
      await bench.clock.advance(stepMs);
      left -= stepMs;
    }
    await bench.reconcile();
  };
  const attempts = () =>
    bench.log.lines.filter(({ message }) => message === 'creation was refused').length;

  it('comes to no deadline, is written once, and tries again every 15 s at most', async () => {
    begin().refuse('pods', quotaFull);
    await bench.reconcile();
    expect((await bench.status)?.startingSinceTime).toBeUndefined();
    const before = await bench.version;
    await pass(3_600_000);
    expect(await bench.status).toMatchObject({
      phase: 'STARTING',
      reason: 'ResourceQuotaExceeded',
    });
    expect(await bench.version).toBe(before);
    expect(attempts()).toBeLessThan(265);
  });

  it('leaves the whole start deadline to what follows, for the next leader too', async () => {
    begin().refuse('pods', quotaFull);
    await bench.reconcile();
    await pass(600_000);
    bench.refuse('pods', undefined);
    await bench.reconcile();
    expect(await bench.status).toMatchObject({ reason: 'WaitingForPod' });
    expect((await bench.status)?.startingSinceTime).toBe(new Date(bench.clock.now()).toISOString());
    await pass(110_000);
    expect(await bench.status).toMatchObject({ phase: 'STARTING' });
    await pass(20_000);
    expect(await bench.status).toMatchObject({ phase: 'ERROR', reason: 'StartDeadlineExceeded' });
  });
});

it('comes to its deadline where the server only fails', async () => {
  begin().refuse(
    'persistentvolumeclaims',
    new ApiError(500, { reason: 'InternalError', message: 'etcdserver: request timed out' }),
  );
  await expect(bench.reconcile()).rejects.toThrow('etcdserver');
  bench.refuse('persistentvolumeclaims', undefined);
  await bench.clock.advance(120_000);
  await bench.reconcile();
  expect(await bench.status).toMatchObject({ phase: 'ERROR', reason: 'StartDeadlineExceeded' });
});

it('says that a volume was deleted together with its files', async () => {
  begin(aSandbox({ status: { conditions: [admitted], lastContainerID: 'process://1' } }));
  await bench.reconcile();
  expect(bench.events).toMatchObject([{ type: 'Warning', reason: 'VolumeLost' }]);
  expect(await bench.created).toEqual([1, 1]);
});

it('reports that it continues with a retained volume', async () => {
  begin();
  bench.client.put(persistentVolumeClaims, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      ...aSandbox().metadata,
      uid: 'uid-of-the-claim',
      creationTimestamp: '2026-02-01T12:00:00Z',
      annotations: { 'conversation-operator.dev/owner': 'alice' },
    },
    spec: {},
    status: { phase: 'Bound' },
  });
  await bench.reconcile();
  expect(bench.events).toMatchObject([{ type: 'Normal', reason: 'VolumeReused' }]);
  expect(await bench.created).toEqual([1, 1]);
});

it('says that a claim which no cache of ours shows has taken the name', async () => {
  begin().refuse(
    'persistentvolumeclaims',
    new ApiError(409, {
      reason: 'AlreadyExists',
      message: 'persistentvolumeclaims "sbx-1" already exists',
    }),
  );
  await bench.reconcile();
  expect(await bench.status).toMatchObject({ reason: 'WaitingForVolume' });
  await bench.clock.advance(20_000);
  await bench.reconcile();
  expect(await bench.status).toMatchObject({ phase: 'STARTING', reason: 'VolumeNameTaken' });
});

describe('the kind of its agent', () => {
  it('is known before there is a pod, and stays when the template names another', async () => {
    begin();
    bench.scene.template = aTemplate({ agent: { kind: 'openhands', workingDir: '/workspace' } });
    bench.refuse('pods', quotaFull);
    await bench.reconcile();
    expect(await bench.status).toMatchObject({ agentKind: 'openhands' });
    bench.refuse('pods', undefined);
    // A kind that the compiler does not know yet, because it comes later.
    bench.scene.template = aTemplate({
      agent: { kind: 'later' as 'openhands', workingDir: '/workspace' },
    });
    await bench.reconcile();
    expect(await bench.created).toEqual([1, 1]);
    expect(await bench.status).toMatchObject({ agentKind: 'openhands', agentPort: 8000 });
  });

  it.each<[string, AcpSettings, string | undefined]>([
    ['that the template names', { agent: 'codex', allowAlways: false }, 'codex'],
    ['that is a command', { command: ['my-agent'], allowAlways: false }, undefined],
  ])('has the name of an agent beside it %s, which stays too', async (_case, acp, name) => {
    begin();
    const templateOf = (settings: AcpSettings) =>
      aTemplate({ agent: { kind: 'acp', workingDir: '/workspace', acp: settings } });
    bench.scene.template = templateOf(acp);
    await bench.reconcile();
    expect(await bench.status).toMatchObject({ agentKind: 'acp' });
    expect((await bench.status)?.agentName).toBe(name);
    bench.scene.template = templateOf({ agent: 'claude', allowAlways: false });
    await bench.reconcile();
    expect((await bench.status)?.agentName).toBe(name);
  });

  it('is stored before the pod is made also where the slot was reserved without it', async () => {
    begin(
      aSandbox({
        status: { conditions: [admitted], replicas: 1, masterKeyId: sceneKeys.currentKeyId },
      }),
    );
    let atCreation: unknown;
    bench.client.fault = ({ verb, plural }) => {
      if (verb === 'create' && plural === 'pods') atCreation = bench.status;
      return undefined;
    };
    await bench.reconcile();
    expect(await atCreation).toMatchObject({ agentKind: 'openhands' });
  });
});

describe('the master key of a sandbox', () => {
  it('is stored before there is a pod, and stays', async () => {
    begin();
    bench.refuse('pods', quotaFull);
    await bench.reconcile();
    expect(await bench.status).toMatchObject({ masterKeyId: sceneKeys.currentKeyId });
    bench.refuse('pods', undefined);
    await bench.reconcile();
    expect(await bench.created).toEqual([1, 1]);
    expect(await bench.status).toMatchObject({ masterKeyId: sceneKeys.currentKeyId });
  });
});
