import { cloneUrlOf, providerOf, type GitHosts } from './repository.ts';
import type { StartScope } from './stage.ts';
import { graceMs } from './step-deadlines.ts';
import type { OperatorRuntime } from '../../operator-runtime.ts';

/**
 * Access of a sandbox to one repository, through the gateway and with the credential of the owner.
 */
export interface CloneAccess {
  readonly gatewayUrl: string;
  readonly ticket: string;
}

export interface CloneAccessOptions extends Pick<OperatorRuntime, 'keys' | 'clock'> {
  readonly gitHosts: GitHosts;
  /**
   * URL at which the sandboxes of a namespace reach the gateway. Absent: sandboxes do not reach the
   * gateway.
   */
  readonly agentSide?: { readonly url: string; readonly namespace: string } | undefined;
}

/**
 * Returns the access for the clone of a start, which expires with the deadline of the step;
 * undefined where there is no gateway.
 */
export function cloneAccessOf(
  { stored, sandbox, status }: StartScope,
  { agentSide, gitHosts, keys, clock }: CloneAccessOptions,
): CloneAccess | undefined {
  const { repository } = stored.spec;
  const provider = repository && providerOf(repository, gitHosts);
  if (
    agentSide?.namespace !== stored.metadata.namespace ||
    repository === undefined ||
    provider === undefined
  )
    return undefined;
  if (sandbox === undefined || !cloneUrlOf(repository, gitHosts).startsWith('http'))
    return undefined;
  const { deadline } = status.start ?? {};
  const endMs = deadline === undefined ? clock.now() + graceMs : Date.parse(deadline);
  const path = ['git', sandbox.metadata.name, provider, ...`${repository.name}.git`.split('/')]
    .map(encodeURIComponent)
    .join('/');
  return {
    gatewayUrl: `${agentSide.url.replace(/\/+$/, '')}/${path}`,
    ticket: keys.cloneTicket(
      sandbox.metadata.uid,
      { provider, repository: repository.name },
      endMs,
      sandbox.status?.masterKeyId,
    ),
  };
}

/** Hides the address of the gateway from the output of a clone. */
export function withoutGateway(output: string, gatewayUrl: string, url: string): string {
  const { hostname, host } = new URL(gatewayUrl);
  const shown = output.replaceAll(gatewayUrl, url);
  return hostname === new URL(url).hostname
    ? shown
    : shown.replaceAll(host, 'the gateway').replaceAll(hostname, 'the gateway');
}
