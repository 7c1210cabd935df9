import {
  defaultForwardingLimits,
  type ForwardingLimits,
} from '@conversation-operator/http/proxy/forwarding-limits';

/** Limits of the proxy. */
export interface ProxyLimits extends ForwardingLimits {
  /**
   * Maximum requests without a key, and WebSockets that have not sent a key yet, of one sandbox.
   */
  readonly waitingForKey: number;
  /**
   * Maximum concurrent requests and WebSockets: of one sandbox, and of this process. One owner may
   * take a quarter of the total.
   */
  readonly perSandbox: number;
  readonly total: number;
}

export const defaultLimits: ProxyLimits = {
  ...defaultForwardingLimits,
  waitingForKey: 64,
  perSandbox: 256,
  total: 10_000,
};
