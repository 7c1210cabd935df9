export { shellCommand, shellQuote } from '../../../agent/shell-quote.ts';
