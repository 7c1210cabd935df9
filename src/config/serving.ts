import { listOf } from './environment.ts';

const isOrigin = (text: string): boolean => text === '*' || (/^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text);

/** Of whoever serves REST. */
export const serving = {
  /** Pages of which origins may use the service from a browser; `*` allows all, none by default. */
  CORS_ORIGINS: listOf(isOrigin, 'must be * or an origin like https://agents.example.com, without a path'),
};
