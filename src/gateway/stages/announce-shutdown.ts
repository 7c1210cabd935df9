import type { Services } from '../services.ts';
import type { Stage } from './stage.ts';

/** Announces a shutdown with the response. */
export const announceShutdown =
  ({ lastResponses }: Services): Stage =>
  (_request, response) => {
    lastResponses.add(response);
    return false;
  };
