import type { AgentContainer, AgentContainerOptions, AgentKindDefinition } from './agent.ts';
import { OpenHandsClient } from './openhands-client.ts';

/** Boot time of an agent whose image is on the node, with a reserve. */
const quietBootSeconds = 20;

function container({
  port,
  workingDir,
  stateDir,
  bootstrapKey,
}: AgentContainerOptions): AgentContainer {
  return {
    env: [
      // The agent gets its keys by its init call, so that neither pod nor environment has them.
      { name: 'OH_DEFERRED_INIT', value: 'true' },
      { name: 'OH_SECRET_KEY', value: bootstrapKey },
      { name: 'OH_CONVERSATIONS_PATH', value: `${stateDir}/conversations` },
      { name: 'OH_BASH_EVENTS_DIR', value: `${stateDir}/bash-events` },
      // The operator guarantees one pod per volume; the agent's lease would only delay a resume.
      { name: 'OH_LEASE_TTL_SECONDS', value: '0' },
      { name: 'OH_ENABLE_VSCODE', value: 'false' },
      { name: 'OH_PRELOAD_TOOLS', value: 'false' },
      { name: 'HOME', value: workingDir },
      // The agent exports secrets in an interactive shell, whose history would keep their values.
      { name: 'HISTFILE', value: '' },
      // Event timestamps of the agent have no zone.
      { name: 'TZ', value: 'UTC' },
    ],
    // On a busy node the agent starts within minutes; an earlier liveness probe would kill it each
    // time. The startDeadline of the template is sooner.
    startupProbe: {
      httpGet: { path: '/ready', port },
      // A kubelet reports each failed check as the Event Unhealthy, also while the agent boots. The
      // delay makes no start slower: the operator asks the agent itself as soon as its container
      // runs, and nothing waits for the pod to be ready.
      initialDelaySeconds: quietBootSeconds,
      periodSeconds: 2,
      timeoutSeconds: 5,
      failureThreshold: 900,
    },
    readinessProbe: { httpGet: { path: '/ready', port }, periodSeconds: 5, timeoutSeconds: 5 },
    // The time-out is long because the agent stalls for seconds while it renders a traceback.
    livenessProbe: {
      httpGet: { path: '/alive', port },
      periodSeconds: 20,
      timeoutSeconds: 10,
      failureThreshold: 3,
    },
  };
}

/** Definition of openhands-agent-server and of the reference agent. */
export const openhands: AgentKindDefinition = {
  defaultPort: 8000,
  createClient: () => new OpenHandsClient(),
  keepsQuestions: false,
  container,
};
