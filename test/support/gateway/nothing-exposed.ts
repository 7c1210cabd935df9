import type { Exposure } from '../../../src/gateway/presenters/sandbox.ts';

/** A gateway without a proxy to agents. */
export const nothingExposed: Exposure = { accessTo: () => undefined };
