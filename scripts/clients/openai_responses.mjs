// OpenAI's package for JavaScript: responses, streamed, each following the one before.
import OpenAI from "openai";

const client = new OpenAI();
let previous = null;
for (const text of process.argv.slice(2)) {
  const stream = client.responses.stream({ model: "recollect", input: text, previous_response_id: previous });
  const response = await stream.finalResponse();
  console.log(response.output_text);
  previous = response.id;
}
