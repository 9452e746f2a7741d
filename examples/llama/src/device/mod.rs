//! Memory and kernels of the device that the program was built for: this processor, or with the feature `cuda` a GPU.
//! Both have the same functions, so that the model is written once.

#[cfg(not(feature = "cuda"))]
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

#[cfg(not(feature = "cuda"))]
pub use cpu::{Device, Kernels, Memory};
#[cfg(feature = "cuda")]
pub use cuda::{Device, Kernels, Memory};

/// What went wrong, in a sentence.
pub type Error = Box<dyn std::error::Error>;

/// Calls a macro with the functions of `kernels/`: name, what was generated for each device, tensors, extents.
macro_rules! functions {
    ($with:ident) => {
        $with! {
            down(down_raw, down_workspace_bytes, Down) 4 [rows];
            down4(down4_raw, down4_workspace_bytes, Down4) 5 [batch];
            embed(embed_raw, embed_workspace_bytes, Embed) 3 [rows];
            fill(fill_raw, fill_workspace_bytes, Fill) 3 [size];
            gate_up(gate_up_raw, gate_up_workspace_bytes, GateUp) 3 [rows];
            gate_up4(gate_up4_raw, gate_up4_workspace_bytes, GateUp4) 4 [batch];
            gated(gated_raw, gated_workspace_bytes, Gated) 2 [rows];
            head(head_raw, head_workspace_bytes, Head) 3 [batch];
            head4(head4_raw, head4_workspace_bytes, Head4) 4 [batch];
            normed_gate_up(normed_gate_up_raw, normed_gate_up_workspace_bytes, NormedGateUp) 4 [];
            normed_qkv(normed_qkv_raw, normed_qkv_workspace_bytes, NormedQkv) 4 [];
            normed_qkv4(normed_qkv4_raw, normed_qkv4_workspace_bytes, NormedQkv4) 5 [];
            out(out_raw, out_workspace_bytes, Out) 4 [rows];
            out4(out4_raw, out4_workspace_bytes, Out4) 5 [batch];
            pack(pack_raw, pack_workspace_bytes, Pack) 3 [size];
            pick(pick_raw, pick_workspace_bytes, Pick) 2 [batch];
            prompt_scores(prompt_scores_raw, prompt_scores_workspace_bytes, PromptScores) 3 [length, reach];
            prompt_values(prompt_values_raw, prompt_values_workspace_bytes, PromptValues) 3 [length, reach];
            prompt_weights(prompt_weights_raw, prompt_weights_workspace_bytes, PromptWeights) 2 [length, reach];
            qkv(qkv_raw, qkv_workspace_bytes, Qkv) 3 [rows];
            qkv4(qkv4_raw, qkv4_workspace_bytes, Qkv4) 4 [batch];
            rms_norm(rms_norm_raw, rms_norm_workspace_bytes, RmsNorm) 3 [rows];
            rope(rope_raw, rope_workspace_bytes, Rope) 6 [rows];
            scales(scales_raw, scales_workspace_bytes, Scales) 2 [size];
            scores(scores_raw, scores_workspace_bytes, Scores) 4 [batch, span];
            softmax(softmax_raw, softmax_workspace_bytes, Softmax) 2 [batch];
            unpack(unpack_raw, unpack_workspace_bytes, Unpack) 3 [size];
            values(values_raw, values_workspace_bytes, Values) 3 [batch, span];
            weights(weights_raw, weights_workspace_bytes, Weights) 2 [batch, span];
        }
    };
}
pub(crate) use functions;
