/** Status of the agent's run, as the protocol of the OpenHands agent server names it. */
export type ExecutionStatus =
  'idle' | 'running' | 'paused' | 'waiting_for_confirmation' | 'finished' | 'error' | 'stuck';
