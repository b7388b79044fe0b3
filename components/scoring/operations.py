"""Which operations a SavedModel may have: none that reads or writes files, runs Python, or talks to other processes.

A SavedModel is a program that TensorFlow runs, and TensorFlow has operations for all of these; the others are listed.
Of those that TensorFlow calls stateless, some read files (ImmutableConst, GenerateVocabRemapping), end the process
(Abort), or decode images. They are not in the list; nor are those of training and of other hardware.
The graph is read before it is loaded, since loading already runs a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.errors import KfrecError

STATELESS = frozenset(
    """
    Abs AccumulateNV2 Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue AdjustSaturation All Angle Any ApproxTopK
    ApproximateEqual ArgMax ArgMin AsString Asin Asinh Atan Atan2 Atanh AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad
    BandedTriangularSolve BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpace BatchToSpaceND BesselI0 BesselI0e
    BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Betainc BiasAdd
    BiasAddGrad Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2
    BroadcastArgs BroadcastGradientArgs BroadcastTo Bucketize CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss CTCLossV2
    Cast Ceil Cholesky CholeskyGrad ClipByValue CombinedNonMaxSuppression Complex ComplexAbs Concat ConcatOffset
    ConcatV2 Conj ConjugateTranspose Const ControlTrigger Conv Conv2D Conv2DBackpropFilter Conv2DBackpropFilterV2
    Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput
    Conv3DBackpropInputV2 Cos Cosh CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage Cross Cumprod Cumsum
    CumulativeLogsumexp DataFormatDimMap DataFormatVecPermute Dawsn DecodeBase64 DecodeCSV DecodePaddedRaw DecodeRaw
    DenseBincount DenseCountSparseOutput DenseToDenseSetOperation DenseToSparseSetOperation DepthToSpace
    DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Dequantize Diag
    DiagPart Digamma Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput Div DivNoNan DynamicPartition
    DynamicStitch EditDistance Eig Einsum Elu EluGrad EmptyTensorList EmptyTensorMap EncodeBase64 EnsureShape Enter
    Equal Erf Erfc Erfinv EuclideanNorm Exit Exp ExpandDims Expint Expm1 ExtractGlimpse ExtractGlimpseV2
    ExtractImagePatches ExtractVolumePatches FFT FFT2D FFT3D FFTND FakeQuantWithMinMaxArgs
    FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient
    FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient Fill Fingerprint Floor FloorDiv
    FloorMod FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad FresnelCos FresnelSin
    FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3
    FusedPadConv2D FusedResizeAndPadConv2D GRUBlockCell GRUBlockCellGrad Gather GatherNd GatherV2 Greater GreaterEqual
    HSVToRGB HistogramFixedWidth IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND Identity IdentityN Igamma
    IgammaGradA Igammac Imag InTopK InTopKV2 Invert InvertPermutation IsFinite IsInf IsNan L2Loss LRN LRNGrad
    LSTMBlockCell LSTMBlockCellGrad LeakyRelu LeakyReluGrad LeftShift Less LessEqual Lgamma LinSpace ListDiff Log
    Log1p LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr LoopCond LowerBound Lu MatMul MatrixBandPart
    MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
    MatrixExponential MatrixInverse MatrixLogarithm MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve
    MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad
    MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax
    MaxPoolV2 MaxPoolWithArgmax Maximum Mean Merge Min Minimum MirrorPad MirrorPadGrad Mod Mul MulNoNan Ndtri Neg
    NextAfter NextIteration NoOp NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
    NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps NotEqual NthElement OneHot OnesLike Pack Pad PadV2
    ParallelConcat ParallelDynamicStitch ParseExample ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2
    ParseSingleExample ParseSingleSequenceExample PartitionedCall Placeholder PlaceholderV2 PlaceholderWithDefault
    Polygamma PopulationCount Pow PreventGradient Prod Qr QuantizeAndDequantize QuantizeAndDequantizeV2
    QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad QuantizeDownAndShrinkRange QuantizeV2
    RFFT RFFT2D RFFT3D RFFTND RGBToHSV RaggedBincount RaggedCountSparseOutput RaggedCross RaggedFillEmptyRows
    RaggedFillEmptyRowsGrad RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToSparse RaggedTensorToTensor
    RaggedTensorToVariant RaggedTensorToVariantGradient RandomGammaGrad RandomIndexShuffle Range Rank Real RealDiv
    Reciprocal ReciprocalGrad ReduceJoin RegexFullMatch RegexReplace Relu Relu6 Relu6Grad ReluGrad RequantizationRange
    RequantizationRangePerChannel Requantize RequantizePerChannel Reshape ResizeArea ResizeBicubic ResizeBicubicGrad
    ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad Reverse ReverseSequence
    ReverseV2 RightShift Rint Roll Round Rsqrt RsqrtGrad ScaleAndTranslate ScaleAndTranslateGrad ScatterNd
    ScatterNdNonAliasingAdd SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2
    SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEig SelfAdjointEigV2 Selu SeluGrad SetSize Shape ShapeN Sigmoid
    SigmoidGrad Sign Sin Sinh Size Slice SobolSample Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad
    Softsign SoftsignGrad SpaceToBatch SpaceToBatchND SpaceToDepth SparseAdd SparseAddGrad SparseBincount SparseConcat
    SparseCountSparseOutput SparseCross SparseCrossHashed SparseCrossV2 SparseDenseCwiseAdd SparseDenseCwiseDiv
    SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReduceMax SparseReduceMaxSparse
    SparseReduceSum SparseReduceSumSparse SparseReorder SparseReshape SparseSegmentMean SparseSegmentMeanGrad
    SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad
    SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad
    SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments SparseSlice SparseSliceGrad SparseSoftmax
    SparseSoftmaxCrossEntropyWithLogits SparseSparseMaximum SparseSparseMinimum SparseSplit SparseTensorDenseAdd
    SparseTensorDenseMatMul SparseToDense SparseToSparseSetOperation Spence Split SplitV Sqrt SqrtGrad Square
    SquaredDifference Squeeze StatelessCase StatelessIf StatelessMultinomial StatelessParameterizedTruncatedNormal
    StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetKeyCounter
    StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson
    StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
    StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormal
    StatelessTruncatedNormalV2 StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice
    StridedSliceGrad StringFormat StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2
    StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Sub
    Substr Sum Svd Switch Tan Tanh TanhGrad TensorListConcat TensorListConcatLists TensorListConcatV2
    TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListReserve TensorListResize TensorListScatter TensorListScatterIntoExistingList
    TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack TensorMapErase TensorMapHasKey
    TensorMapInsert TensorMapLookup TensorMapSize TensorMapStackKeys TensorScatterAdd TensorScatterMax
    TensorScatterMin TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile TileGrad ToBool TopK TopKV2
    Transpose TridiagonalMatMul TridiagonalSolve TruncateDiv TruncateMod UnicodeDecode UnicodeDecodeWithOffsets
    UnicodeEncode UnicodeScript UnicodeTranscode Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack
    UnravelIndex UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
    UpperBound Where Xdivy Xlog1py Xlogy ZerosLike Zeta
    """.split()  # noqa: SIM905
)


# Stateful operations that touch nothing but the model's own variables, tables and random numbers.
_STATEFUL = frozenset(
    """
    Assert AssignAddVariableOp AssignSubVariableOp AssignVariableOp Case CheckNumerics CheckNumericsV2 CudnnRNN
    CudnnRNNV2 CudnnRNNV3 DisableCopyOnRead Empty HashTableV2 If InitializeTableV2 LookupTableExportV2
    LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2 LookupTableSizeV2 MutableHashTableV2 RandomShuffle
    RandomStandardNormal RandomUniform RandomUniformInt ReadVariableOp ResourceGather ResourceGatherNd
    StatefulPartitionedCall StatelessRandomGetAlg TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3
    TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3
    TruncatedNormal VarHandleOp VarIsInitializedOp VariableShape While
    """.split()  # noqa: SIM905
)
# What writes and reads the weights, in two functions that only TensorFlow's saver calls.
_SAVING = {"save": frozenset(("MergeV2Checkpoints", "SaveV2", "ShardedFilename")), "restore": frozenset(("RestoreV2",))}
_SAVER = re.compile(r"__inference__traced_(save|restore)_\d+")


def require_harmless(saved: Path) -> None:
    """Reads the graphs of a SavedModel without running them.

    Raises:
        KfrecError: it has an operation of another kind, or no readable graph.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    path = saved / "saved_model.pb"
    try:
        model.ParseFromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise KfrecError(f"{path}: not a SavedModel ({error}); run the train step again") from None
    for graph in model.meta_graphs:
        if not graph.object_graph_def.nodes:  # TensorFlow would run its saver's functions to load it
            raise KfrecError(
                f"{path}: has no object graph, as models of TensorFlow 1; save it with tf.saved_model.save"
            )
        for operation in _refused(graph):
            raise KfrecError(
                f"{path}: has the operation {operation}, which models need not have and which may reach files, Python "
                "or other processes; it is not loaded. Train the model without it"
            )


def _refused(graph: Any) -> Iterator[str]:
    """The operations of a graph that are not allowed."""
    saver = graph.saver_def
    ends = {name.partition(":")[0] for name in (saver.save_tensor_name, saver.restore_op_name) if name}
    signatures = graph.signature_def.values()
    served = {tensor.name.partition(":")[0] for signature in signatures for tensor in signature.outputs.values()}
    callers = ends - served
    saving = {name for node in graph.graph_def.node if node.name in callers for name in _functions(node)}
    saving = {name for name in saving if _SAVER.fullmatch(name)}
    saving -= set(graph.object_graph_def.concrete_functions)
    saving -= {name for node in graph.graph_def.node if node.name not in callers for name in _functions(node)}
    for function in graph.graph_def.library.function:
        saving -= {name for node in function.node_def for name in _functions(node)}
    yield from _of(graph.graph_def.node)
    for function in graph.graph_def.library.function:
        saver = _SAVER.fullmatch(function.signature.name) if function.signature.name in saving else None
        yield from _of(function.node_def, _SAVING[saver[1]] if saver else frozenset())


def _functions(node: Any) -> Iterator[str]:
    """The functions that a node calls."""
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (each.name for each in value.list.func)


def _of(nodes: Iterable[Any], saving: frozenset[str] = frozenset()) -> set[str]:
    return {node.op for node in nodes} - STATELESS - _STATEFUL - saving
