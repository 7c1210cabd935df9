import { fileURLToPath } from 'node:url';
import { referenceAgentImage } from '../../src/commands/initial-objects.ts';
import type { Installation } from './installation.ts';
import { kubectl } from './kubectl.ts';

/** Behaviors from the first connection on: the sandbox never runs, and fails at its deadline. */
export const silentBehaviours = [
  'hangs',
  'nonsense',
  'fails',
  'redirects',
  'large',
  'floods',
] as const;
const program = fileURLToPath(new URL('hostile-agent-process.ts', import.meta.url));

/** Adds a template for each behavior, by its name. */
export async function addHostileTemplates(
  { kubeconfig }: Installation,
  behaviours: readonly string[],
  startDeadline: string,
): Promise<void> {
  for (const behaviour of behaviours) {
    const spec = {
      podTemplate: {
        spec: {
          containers: [
            {
              name: 'agent',
              image: referenceAgentImage,
              command: [process.execPath, program, behaviour],
              // The tests observe the operator's own requests, so the probes of the kubelet only
              // open connections.
              readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1 },
              livenessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 10 },
            },
          ],
        },
      },
      startDeadline,
    };
    const manifest = {
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'SandboxTemplate',
      metadata: { name: behaviour },
      spec,
    };
    const { code, stderr } = await kubectl(
      kubeconfig,
      ['apply', '-f', '-'],
      JSON.stringify(manifest),
    );
    if (code !== 0 || stderr !== '') throw new Error(`kubectl apply ended with ${code}: ${stderr}`);
  }
}

/** Starts a sandbox with each silent agent; returns the IDs of the start tasks. */
export async function startSilentAgents(up: Installation): Promise<readonly string[]> {
  const tasks = await Promise.all(
    silentBehaviours.map((behaviour) => up.start('Hello.', { sandbox_spec_id: behaviour })),
  );
  return tasks.map(({ id }) => id);
}

/** Starts a conversation with the reference agent, waits until it is READY, and deletes it. */
export async function goodStart(up: Installation): Promise<void> {
  const { id } = await up.start('Hello.');
  const { status, app_conversation_id: conversation } = await up.over(id);
  if (status !== 'READY') throw new Error(`the start of the reference agent ended with ${status}`);
  await up.call('DELETE', `/api/v1/app-conversations/${conversation ?? ''}`);
}
