import { isReal } from './support/server.ts';

/** `it` defines a case that the embedded server fails; one that begins to pass is reported. */
const exception = (why: string) => ({ why, it: isReal ? it : it.failing });

/** Intended differences of the embedded API server from a real one: five at most. */
export const exceptions = {
  managedFields: exception(
    'The server has no server-side apply and keeps managed fields as a client has sent them: kubectl apply and the other everyday verbs need neither, and recording who has written a field would cost every write more than all of its other work.',
  ),
  claimProtection: exception(
    'Claims carry no finalizer kubernetes.io/pvc-protection: there is one node, and it keeps the folder of a claim until the last pod that uses it has ended.',
  ),
} as const;
