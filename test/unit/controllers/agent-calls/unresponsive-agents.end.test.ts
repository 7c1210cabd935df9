import type { Handler } from '@conversation-operator/kube/reflector';
import {
  sandboxController,
  type SandboxControllerOptions,
} from '../../../../src/controllers/sandbox/controller.ts';
import { UnresponsiveAgents } from '../../../../src/controllers/agent-calls/unresponsive-agents.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import { aSandbox, noonMs } from '../../../support/builders.ts';
import { SandboxScene } from '../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const boundMs = 60_000;

describe('the record of an unresponsive agent', () => {
  it('ends with its sandbox', async () => {
    const { clock } = new SandboxScene();
    const unresponsiveAgents = new UnresponsiveAgents({ clock });
    const unwatched = { addHandler: () => () => undefined };
    const handlers: Handler<Sandbox>[] = [];
    const sandboxes = {
      addHandler: (handler: Handler<Sandbox>) => {
        handlers.push(handler);
        return () => undefined;
      },
    };
    const controller = sandboxController({
      unresponsiveAgents,
      caches: { sandboxes, pods: unwatched, claims: unwatched, templates: unwatched },
      unresponsive: () => () => undefined,
    } as unknown as SandboxControllerOptions);
    for (const connect of controller.sources) connect({ enqueueAfter: () => undefined });
    const sandbox = aSandbox();
    unresponsiveAgents.recordFailure(sandbox.metadata.uid);
    await clock.advance(boundMs);
    expect(unresponsiveAgents.isUnresponsive(sandbox.metadata.uid)).toBe(true);
    for (const handler of handlers) handler.deleted?.(sandbox, 'observed');
    expect(unresponsiveAgents.isUnresponsive(sandbox.metadata.uid)).toBe(false);
  });

  it('gives way to 10,000 later ones, as where a call fails after the end of its sandbox', async () => {
    const clock = new VirtualClock(noonMs);
    const agents = new UnresponsiveAgents({ clock });
    for (let index = 0; index <= 10_000; index++) agents.recordFailure(`agent-${index}`);
    await clock.advance(boundMs);
    expect([agents.isUnresponsive('agent-0'), agents.isUnresponsive('agent-1')]).toEqual([
      false,
      true,
    ]);
  });
});
