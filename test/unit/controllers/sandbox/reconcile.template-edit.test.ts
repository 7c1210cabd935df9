import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { AgentError } from '../../../../src/agent/errors.ts';
import type { AgentEndpoint, AgentState } from '../../../../src/agent/agent.ts';
import { buildPod } from '../../../../src/controllers/sandbox/pod.ts';
import { persistentVolumeClaims, pods, type Pod } from '@conversation-operator/kube/core';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import type { SandboxTemplateSpec } from '../../../../src/resources/sandbox-template.ts';
import {
  aClaim,
  aContainer,
  aPod,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  noon,
} from '../../../support/builders.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

/** An agent that listens at one port, with one run that ends when it is interrupted. */
class ListeningAgent extends OpenHandsClient {
  interrupted = false;
  readonly #port: number;

  constructor(port: number) {
    super();
    this.#port = port;
  }

  override probe = (endpoint: AgentEndpoint): Promise<AgentState> =>
    Promise.resolve(endpoint.baseUrl.endsWith(`:${this.#port}`) ? 'ready' : 'unreachable');
  override runningConversations = (endpoint: AgentEndpoint): Promise<readonly string[]> => {
    this.#reach(endpoint);
    return Promise.resolve(this.interrupted ? [] : ['c1']);
  };
  override losableQuestions = (endpoint: AgentEndpoint): Promise<readonly string[]> => {
    this.#reach(endpoint);
    return Promise.resolve([]);
  };
  override interrupt = (endpoint: AgentEndpoint): Promise<void> => {
    this.#reach(endpoint);
    this.interrupted = true;
    return Promise.resolve();
  };

  #reach({ baseUrl }: AgentEndpoint): void {
    if (!baseUrl.endsWith(`:${this.#port}`))
      throw new AgentError('unreachable', `nothing listens at ${baseUrl}`);
  }
}

const ofPort = (port: number, more: Partial<SandboxTemplateSpec> = {}) =>
  aTemplate({ agent: { port, workingDir: '/workspace' }, ...more });
const waiting = aSandbox({ status: { conditions: [admitted] } });
const running = aSandbox({
  status: {
    conditions: [admitted, condition('Ready', 'True', 'Running')],
    observedGeneration: 1,
    replicas: 1,
    masterKeyId: sceneKeys.currentKeyId,
    agentKind: 'openhands',
    agentEpoch: 1,
    podName: 'sbx-1',
    podUID: 'uid-of-the-pod',
    podIP: '127.70.0.1',
    agentPort: 8000,
    activeSinceTime: noon,
    containerID: 'process://1',
    lastContainerID: 'process://1',
  },
});

/** The pod that was made of a template, with its agent running. */
const podOf = (sandbox: Sandbox, template = ofPort(8000)): Pod => ({
  ...aPod(sandbox, {
    phase: 'Running',
    podIP: '127.70.0.1',
    containerStatuses: (template.spec.podTemplate.spec?.containers ?? []).map(({ name }) =>
      aContainer({
        name,
        containerID: name === 'agent' ? 'process://1' : `process://${name}`,
        state: { running: {} },
        ready: true,
      }),
    ),
  }),
  spec: buildPod(sandbox, template, { bootstrapKey: 'bootstrap-key' }).spec ?? { containers: [] },
});

describe('a sandbox that runs while its template is edited', () => {
  const sceneOf = (agent: OpenHandsClient, pod = podOf(running)) => {
    const scene = new SandboxScene({ agent });
    scene.client.put(sandboxes, running);
    scene.client.put(pods, pod);
    scene.client.put(persistentVolumeClaims, aClaim(running));
    return scene;
  };

  it('is reached at the port that its pod was made with', async () => {
    const scene = sceneOf(new ListeningAgent(8000));
    scene.template = ofPort(9000);
    expect(await scene.reconcile()).toMatchObject({ phase: 'RUNNING' });
    expect((await scene.sandbox()).status?.agentPort).toBe(8000);
  });

  it('has its runs interrupted at that port before a pause takes its pod away', async () => {
    const agent = new ListeningAgent(8000);
    const scene = sceneOf(agent);
    scene.template = ofPort(9000);
    await scene.reconcile();
    await scene.sandbox((sandbox) => ({ ...sandbox, spec: { ...sandbox.spec, replicas: 0 } }));
    for (let round = 0; round < 6; round++) await scene.reconcile();
    expect(agent.interrupted).toBe(true);
    expect(await scene.pod()).toBeUndefined();
    expect((await scene.sandbox()).status?.interruptedConversationIDs).toEqual(['c1']);
  });

  it('is found in the same container when the template names another one', async () => {
    const [agent, sidecar] = [
      { name: 'agent', image: 'agent:1' },
      { name: 'sidecar', image: 'sidecar:1' },
    ];
    const scene = sceneOf(
      new ListeningAgent(8000),
      podOf(running, ofPort(8000, { podTemplate: { spec: { containers: [sidecar, agent] } } })),
    );
    scene.template = ofPort(8000, { podTemplate: { spec: { containers: [sidecar] } } });
    expect(await scene.reconcile()).toMatchObject({ phase: 'RUNNING' });
    expect((await scene.sandbox()).status?.containerID).toBe('process://1');
  });

  it('gets its next pod with the new port', async () => {
    const scene = new SandboxScene({ agent: new ListeningAgent(9000) });
    scene.client.put(sandboxes, waiting);
    scene.template = ofPort(9000);
    await scene.reconcile();
    expect((await scene.sandbox()).status?.agentPort).toBe(9000);
    expect((await scene.pod())?.spec?.containers[0]?.ports).toEqual([
      { name: 'agent', containerPort: 9000 },
    ]);
  });
});
