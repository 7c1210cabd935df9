import { cachedClaim, cachedPod } from '../../../src/resources/cached-core.ts';
import { cachedSandbox } from '../../../src/resources/cached-kinds.ts';
import type { Pod } from '@conversation-operator/kube/core';
import { Interner } from '../../../src/resources/cached-metadata.ts';
import { retainedLabel } from '../../../src/controllers/sandbox/claim.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { ownerAnnotation, sandboxLabel, sandboxLabels } from '../../../src/resources/sandbox.ts';
import { aClaim, aPod, aSandbox, noon } from '../../support/builders.ts';

const foreign = { 'kubectl.kubernetes.io/last-applied-configuration': 'x'.repeat(5000) };
const own = { [ownerAnnotation]: 'alice' };
const managedFields = [{ manager: 'kubectl' }];

describe('a cached pod', () => {
  it('has nothing of its containers but their names and ports, and no metadata of others', () => {
    const whole = aPod(aSandbox(), { phase: 'Running', podIP: '127.70.0.1' });
    const secret = {
      name: 'agent',
      env: [{ name: 'KEY', value: 'secret' }],
      ports: [{ name: 'agent', containerPort: 8000 }],
      image: 'an-image',
    };
    const made: Pod = {
      ...whole,
      metadata: {
        ...whole.metadata,
        labels: sandboxLabels('sbx-1'),
        annotations: { ...own, ...foreign },
        managedFields,
        finalizers: ['a/b'],
      },
      spec: {
        containers: [secret],
        initContainers: [{ ...secret, name: 'setup', restartPolicy: 'Always' }],
        volumes: [{ name: 'workspace' }],
      },
    };
    expect(cachedPod(made, new Interner())).toEqual({
      ...whole,
      metadata: { ...whole.metadata, labels: { [sandboxLabel]: 'sbx-1' }, annotations: own },
      spec: {
        containers: [{ name: 'agent', ports: secret.ports }],
        initContainers: [{ name: 'setup', restartPolicy: 'Always' }],
      },
    });
  });

  it('has of its status what says whether it runs, and why not', () => {
    const container = {
      name: 'agent',
      image: 'an-image',
      containerID: 'containerd://1',
      restartCount: 1,
      state: { waiting: { reason: 'CrashLoopBackOff' } },
      lastState: { terminated: { exitCode: 1, reason: 'Error' } },
    };
    const status = {
      phase: 'Running',
      reason: 'Evicted',
      message: 'No room.',
      podIP: '127.70.0.1',
      conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: noon }],
      containerStatuses: [container],
      initContainerStatuses: [container],
    };
    const reported = {
      ...container,
      imageID: 'sha256:1',
      ready: true,
      started: true,
      volumeMounts: [{ name: 'workspace', mountPath: '/workspace' }],
    };
    const made: Pod = aPod(aSandbox(), {
      ...status,
      qosClass: 'BestEffort',
      hostIP: '10.0.0.1',
      podIPs: [{ ip: '127.70.0.1' }],
      containerStatuses: [reported],
      initContainerStatuses: [reported],
    });
    expect(cachedPod(made, new Interner()).status).toEqual(status);
  });
});

describe('a cached claim', () => {
  it('has its class, its phase and whose it is', () => {
    const whole = aClaim(aSandbox());
    const metadata = {
      ...whole.metadata,
      labels: { a: 'b', [retainedLabel]: 'true' },
      annotations: { ...own, ...foreign },
    };
    const spec = { storageClassName: 'standard', accessModes: ['ReadWriteOnce'] };
    const made = {
      ...whole,
      metadata,
      spec,
      status: { phase: 'Bound', capacity: { storage: '1Gi' } },
    };
    expect(cachedClaim(made, new Interner())).toEqual({
      ...whole,
      metadata: { ...whole.metadata, labels: { [retainedLabel]: 'true' }, annotations: own },
      spec: { storageClassName: 'standard' },
      status: { phase: 'Bound' },
    });
  });
});

describe('a cached sandbox', () => {
  it('is the sandbox without the metadata of others', () => {
    const whole = aSandbox();
    const metadata = {
      ...whole.metadata,
      annotations: { ...own, ...foreign },
      labels: { a: 'b' },
      managedFields,
      finalizers: ['a/b'],
    };
    expect(cachedSandbox({ ...whole, metadata }, new Interner())).toEqual({
      ...whole,
      metadata: { ...whole.metadata, annotations: own },
    });
  });
});

describe('an interner', () => {
  it('has one place for the names, uids and times that a sandbox and its claim repeat', () => {
    const interner = new Interner();
    const sandbox = aSandbox();
    const owner = ownerReferenceTo(sandbox, { controller: true });
    cachedSandbox(sandbox, interner);
    const { size } = interner;
    const { creationTimestamp } = sandbox.metadata;
    const claim = aClaim(sandbox);
    const metadata = {
      ...claim.metadata,
      name: sandbox.metadata.name,
      creationTimestamp,
      ownerReferences: [owner],
    };
    cachedClaim({ ...claim, metadata }, interner);
    // The uid of the claim is its own.
    expect(interner.size).toBe(size + 1);
  });

  it('gives each text back, however many there are', () => {
    const interner = new Interner();
    for (let index = 0; index < 40_000; index++)
      expect(interner.of(`a text of number ${index}`)).toBe(`a text of number ${index}`);
    expect(interner.size).toBeLessThanOrEqual(16_384);
  });

  it('keeps no long text', () => {
    const interner = new Interner();
    interner.of('x'.repeat(257));
    expect(interner.size).toBe(0);
  });

  it('leaves absent fields absent', () => {
    const object: { readonly name?: string; readonly other: string } = { other: 'another text' };
    new Interner().share(object, 'name', 'other');
    expect(Object.entries(object)).toEqual([['other', 'another text']]);
  });
});
